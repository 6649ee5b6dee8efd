package jsonfile

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"capd/vfs"
)

// verify reads all of text, which has to be one value.
func verify(text []byte, options ...jsontext.Options) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), options...)
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	return atEnd(dec)
}

var errSecond = errors.New("a second value begins")

// atEnd answers an error if dec has not read everything but space.
func atEnd(dec *jsontext.Decoder) error {
	switch _, err := dec.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return &jsontext.SyntacticError{ByteOffset: dec.InputOffset() - 1, Err: errSecond}
	default:
		return err
	}
}

// notJSON is the error for text, in which a decoder found err. what is how the message calls
// the text.
func notJSON(what string, text []byte, err error) error {
	if len(bytes.Trim(text, whitespace)) == 0 {
		return vfs.Errorf(vfs.Invalid, "%s is empty, which is not JSON", what)
	}
	offset, why := len(text), "it ends too early"
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		offset, why = min(int(at.ByteOffset), len(text)), at.Err.Error()
		if at.Err == jsontext.ErrDuplicateName {
			why = "the name " + quoted(at.JSONPointer.LastToken()) + " is there twice in one object"
		} else if rest := text[offset:]; bytes.HasPrefix(rest, []byte("/")) {
			why += "; JSON has no comments"
		} else if bytes.HasPrefix(rest, []byte(",")) && bytes.ContainsAny(firstOf(rest[1:]), "]}") {
			why = "nothing follows this comma"
		}
	}
	line, column := position(text, offset)
	return vfs.Errorf(vfs.Invalid, "%s is not valid JSON: line %d, column %d: %s", what, line, column, why)
}

// firstOf returns the first byte of text that is no space, or nothing.
func firstOf(text []byte) []byte {
	text = bytes.TrimLeft(text, whitespace)
	return text[:min(1, len(text))]
}

// position returns the line and the column of an offset in text, both from 1.
func position(text []byte, offset int) (line, column int) {
	before := text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// kindOf returns what a value is, for a message.
func kindOf(value []byte) string {
	switch jsontext.Value(value).Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "a number"
}

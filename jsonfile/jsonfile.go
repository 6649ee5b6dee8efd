// Package jsonfile reads and changes one value of a JSON document. All other bytes stay as
// they are: order, indentation, line endings, a byte order mark, the end of the file.
//
// A document is one value in UTF-8 (RFC 8259), of at most [MaxBytes] bytes and 10,000 levels.
// A byte order mark before it is allowed. Comments, trailing commas and a second value are
// not: a document with one of these is invalid, and the error has the line and the column.
// Lines end at a line feed, and columns count characters; both begin at 1.
//
// A value is named by a JSON pointer (RFC 6901): "" is the whole document, and "/a/0/b" is
// the member b of the first element of the member a. In a name ~1 stands for "/", and ~0 for
// "~". An object on the way that has the name twice is invalid, since programs differ in which
// of the two they take. Names that occur twice elsewhere do not matter.
//
// Errors are those of [capd/vfs]: invalid, notFound and tooLarge.
package jsonfile

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"capd/vfs"
)

// MaxBytes bounds a document, before and after a change, in bytes.
const MaxBytes = 4 << 20

// Get returns the value at pointer, as it stands in doc. It is a part of doc. Get answers
// notFound, and says how far the pointer leads.
func Get(doc []byte, pointer string) ([]byte, error) {
	s, err := find(doc, pointer)
	if err != nil {
		return nil, err
	}
	if !s.found {
		return nil, s.absent(len(s.names) - 1)
	}
	return s.body[s.value.start:s.value.end], nil
}

// Text returns the text of value, which is a JSON string. It answers invalid for any other
// value.
func Text(value []byte) (string, error) {
	if jsontext.Value(value).Kind() != '"' {
		return "", vfs.Errorf(vfs.Invalid, "the value is %s and not a string", kindOf(value))
	}
	value = bytes.Trim(value, whitespace)
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", notJSON("the value", value, err)
	}
	return string(text), nil
}

// Quote returns text as a JSON string. It answers invalid if text is not UTF-8.
func Quote(text string) ([]byte, error) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "the text is not UTF-8, which JSON needs")
	}
	return quoted, nil
}

// Set returns doc with value at pointer. A value that is there is replaced. A member that an
// object lacks is added at its end, in the style of the members before it. "-" in place of an
// index adds at the end of an array. value is put there as it is written, less the space around
// it. Set answers notFound if the object or the array is missing, and says which part of the
// pointer is; it makes one member, never several.
func Set(doc []byte, pointer string, value []byte) ([]byte, error) {
	s, err := find(doc, pointer)
	if err != nil {
		return nil, err
	}
	value = bytes.Trim(value, whitespace)
	if err := checkValue(value); err != nil {
		return nil, err
	}
	if s.found {
		return s.with(s.value, value)
	}
	if s.in.array && s.names[len(s.names)-1] != pastEnd {
		return nil, s.absent(len(s.names) - 1)
	}
	at := s.in.last.value.end
	before, after := s.separator(), []byte(nil)
	if s.in.count == 0 {
		at = s.in.open
		before, after = s.indents()
	}
	added := slices.Clone(before)
	if !s.in.array {
		name, err := Quote(s.names[len(s.names)-1])
		if err != nil {
			return nil, err
		}
		added = append(append(added, name...), s.colon()...)
	}
	return s.with(span{at, at}, append(append(added, value...), after...))
}

// Remove returns doc without the member or the element at pointer, and without the comma that
// goes with it. It answers notFound as Get does, and invalid for the whole document.
func Remove(doc []byte, pointer string) ([]byte, error) {
	s, err := find(doc, pointer)
	if err != nil {
		return nil, err
	}
	if len(s.names) == 0 {
		return nil, vfs.Errorf(vfs.Invalid, "the pointer names the whole document; remove the file instead")
	}
	if !s.found {
		return nil, s.absent(len(s.names) - 1)
	}
	switch hit := s.in.hit; {
	case s.in.count == 1:
		return s.with(span{s.in.open, s.in.end}, nil)
	case hit.lead == s.in.open:
		return s.with(span{hit.start, s.in.next.start}, nil)
	default:
		return s.with(span{hit.lead, hit.value.end}, nil)
	}
}

// with returns the document with b in the place of part. The document is valid afterwards, too.
func (s *search) with(part span, b []byte) ([]byte, error) {
	size := len(s.mark) + len(s.body) - (part.end - part.start) + len(b)
	if size > MaxBytes {
		return nil, vfs.Errorf(vfs.TooLarge, "the document would be %d bytes, more than %d", size, MaxBytes)
	}
	body := slices.Concat(s.body[:part.start], b, s.body[part.end:])
	// Each of the two may be nested as deep as is allowed, and both together too deep.
	if err := verify(body, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, notJSON("the changed document", body, err)
	}
	return slices.Concat(s.mark, body), nil
}

// checkValue answers invalid unless value is one JSON value, in which no object has a name
// twice.
func checkValue(value []byte) error {
	if len(value) > MaxBytes {
		return vfs.Errorf(vfs.TooLarge, "the value is %d bytes, more than %d", len(value), MaxBytes)
	}
	if err := verify(value); err != nil {
		return notJSON("the value", value, err)
	}
	return nil
}

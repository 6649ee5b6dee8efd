package config

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"capd/vfs"
)

// Bounds on what is parsed. They are far above what a file needs, and low enough to
// keep the parser fast and its stack small. The parser recurses over levels and over
// the keys of a mapping, and moves all following tokens whenever a value is missing.
const (
	maxTokens = 1 << 17 // words and punctuation
	maxLevels = 32
	maxKeys   = 64  // of one mapping
	maxAhead  = 256 // tabs and < in a line: the scanner looks ahead from each
)

// document parses data and returns the root of its only document, or nil after a
// mistake.
func (r *reader) document(data []byte) ast.Node {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	r.characters(text)
	if len(r.mistakes) > 0 {
		return nil
	}
	tokens := scan(text)
	if tokens.InvalidToken() == nil {
		r.tokens(tokens)
	}
	if len(r.mistakes) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // mapping reports duplicate keys
	if err != nil {
		at, msg := start, "it cannot be read" // err.Error would repeat the file
		if e, ok := errors.AsType[yaml.Error](err); ok {
			at, msg = placeOfToken(e.GetToken()), e.GetMessage()
		}
		r.mistake(at, "this is not YAML: %s; check the indentation, and put text in quotes that holds \": \" or \" #\", ends in \":\", or begins with a sign", vfs.Printable(msg))
		return nil
	}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil && file.Docs[0].Body.Type() != ast.NullType {
		return file.Docs[0].Body
	}
	r.mistake(start, "the file says nothing; write mounts: and at least one mount")
	return nil
}

// characters reports characters that no text file contains.
func (r *reader) characters(text string) {
	at, ahead := start, 0
	for i, c := range text {
		if c == '\t' || c == '<' {
			ahead++
		}
		switch {
		case c == '\n':
			at, ahead = place{at.line + 1, 0}, 0
		case ahead > maxAhead:
			r.mistake(at, "more than %d tabs and < in a line; leave some out, or write more lines", maxAhead)
			return
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			r.mistake(at, "the file is not UTF-8 here; save it as UTF-8")
			return
		case unicode.IsControl(c) && c != '\t':
			r.mistake(at, "a control character (U+%04X); leave it out, or in a text in double quotes write it as YAML does", c)
			return
		}
		at.column++
	}
}

// scan splits text into tokens. It stops at the first bad token, which it includes: the
// parser says what is wrong with it.
func scan(text string) (tokens token.Tokens) {
	var s scanner.Scanner
	s.Init(text)
	all, _ := s.Scan() // the last token has the error too
	tokens.Add(all...)
	return tokens
}

// refused are the parts of YAML that are not allowed here: those that stand for
// something else, or can expand.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors (&) are not read here; write the value wherever it is needed",
	token.AliasType:      "aliases (*) are not read here; write the value again, or put text that begins with * in quotes",
	token.MergeKeyType:   "merge keys (<<) are not read here; write the keys out",
	token.TagType:        "tags (!) are not read here; leave it out, or put text that begins with ! in quotes",
	token.DirectiveType:  "directives (%) are not read here; leave it out, or put text that begins with % in quotes",
	token.MappingKeyType: "keys that begin with ? are not read here; write KEY: VALUE",
}

// tokens reports what is refused, before parsing. It stops at the first token beyond a
// bound.
func (r *reader) tokens(tokens token.Tokens) {
	if len(tokens) > maxTokens {
		r.mistake(placeOfToken(tokens[maxTokens]), "more than %d words and signs; write fewer mounts and guests", maxTokens)
		return
	}
	var b blocks
	brackets, begun, ended := 0, false, false
	for _, t := range tokens {
		at := placeOfToken(t)
		if msg, ok := refused[t.Type]; ok {
			r.mistake(at, "%s", msg)
		}
		if t.Type == token.DocumentHeaderType && begun || t.Type != token.CommentType && ended {
			r.mistake(at, "a second document begins; write one, without --- and ...")
			return
		}
		begun = begun || t.Type != token.CommentType
		keys := 0
		switch t.Type {
		case token.DocumentEndType:
			ended = true
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(brackets-1, 0)
		case token.SequenceEntryType:
			b.at(at.column)
		case token.MappingValueType:
			if brackets == 0 {
				if t.Prev != nil {
					at = placeOfToken(t.Prev)
				}
				block := b.at(at.column)
				block.keys++
				keys = block.keys
			}
		}
		switch {
		case len(b)+brackets > maxLevels:
			r.mistake(at, "more than %d levels deep; nothing here needs as many", maxLevels)
			return
		case keys > maxKeys:
			r.mistake(at, "more than %d keys in one mapping; nothing here has as many", maxKeys)
			return
		}
	}
}

// blocks are the blocks around a token, outermost first.
type blocks []block

type block struct{ column, keys int }

// at enters the block whose entries begin at column, and leaves deeper ones.
func (b *blocks) at(column int) *block {
	for len(*b) > 0 && (*b)[len(*b)-1].column > column {
		*b = (*b)[:len(*b)-1]
	}
	if len(*b) == 0 || (*b)[len(*b)-1].column < column {
		*b = append(*b, block{column: column})
	}
	return &(*b)[len(*b)-1]
}

package vfs

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of names and paths.
const (
	MaxName  = 255  // bytes of one name
	MaxPath  = 4095 // bytes of a path, relative to any root
	MaxDepth = 128  // segments of a path
	MaxLinks = 40   // links followed by one Walk
	MaxWalk  = 1024 // names that one Walk visits, those of link targets included
)

// CheckName answers invalid unless name is a valid name: 1 to MaxName bytes, not "." or
// "..", without "/" and NUL. It need not be UTF-8.
func CheckName(name string) error {
	switch {
	case name == "":
		return Errorf(Invalid, "a name is empty")
	case name == ".":
		return Errorf(Invalid, "\".\" is not a name; use the Dir itself")
	case name == "..":
		return Errorf(Invalid, "\"..\" is not a name; a Dir has no parent to go to")
	case len(name) > MaxName:
		return Errorf(Invalid, "a name is longer than %d bytes", MaxName)
	case strings.ContainsAny(name, "/\x00"):
		return Errorf(Invalid, "a name holds \"/\" or NUL; a name is one segment")
	}
	return nil
}

// CheckNewName answers invalid unless a node called name may be created. Such a name is
// valid UTF-8 without control characters, without "\", and without characters that are
// invisible or change the direction of text.
func CheckNewName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !utf8.ValidString(name) {
		return Errorf(Invalid, "a new name must be valid UTF-8")
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return Errorf(Invalid, "a new name may not hold a backslash")
		case unicode.IsControl(r), deceptive(r):
			return Errorf(Invalid, "a new name may not have characters that are control characters, are invisible or change the direction of text (U+%04X)", r)
		}
	}
	return nil
}

// deceptive reports characters that are invisible or reorder the text around them:
// format characters (zero-width, bidirectional, tags), line and paragraph separators,
// fillers, variation selectors and the byte order mark.
func deceptive(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// disguises reports characters that a terminal acts on or that a reader does not see.
func disguises(r rune) bool { return unicode.IsControl(r) || deceptive(r) }

// SplitPath splits a path into its names and checks each name. It answers invalid for
// an empty path, a leading "/" or a bad name, and limit for a path longer than MaxPath
// or deeper than MaxDepth.
func SplitPath(path string) ([]string, error) {
	if err := CheckPathSize(path); err != nil {
		return nil, err
	}
	switch {
	case path == "":
		return nil, Errorf(Invalid, "the path is empty; name something in this Dir")
	case path[0] == '/':
		return nil, Errorf(Invalid, "a path starts at this Dir, never with \"/\"")
	}
	names := strings.Split(path, "/")
	for _, name := range names {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// CheckPathSize answers limit for a path or pattern longer than MaxPath or deeper than
// MaxDepth.
func CheckPathSize(path string) error {
	switch {
	case len(path) > MaxPath:
		return ErrTooLong
	case strings.Count(path, "/") >= MaxDepth:
		return ErrTooDeep
	}
	return nil
}

// Join returns the path of name below dir, which may be "".
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// JoinAll returns the path of names below dir, which may be "".
func JoinAll(dir string, names []string) string {
	size := len(dir)
	for _, name := range names {
		size += 1 + len(name)
	}
	b := append(make([]byte, 0, size), dir...)
	for _, name := range names {
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(b, name...)
	}
	return string(b)
}

// Printable returns path in a form that is safe on a terminal, in a log or in a message
// for a model. It escapes invalid UTF-8, control characters and deceptive characters as
// Go does (\xff, \u202e).
func Printable(path string) string {
	odd := func(r rune) bool { return (r < ' ' || r > '~') && (r == utf8.RuneError || disguises(r)) } // most names are printable ASCII
	if !strings.ContainsFunc(path, odd) {
		return path
	}
	var b strings.Builder
	escape := func(prefix string, code ...byte) {
		b.WriteString(prefix)
		b.Write(hex.AppendEncode(make([]byte, 0, 8), code))
	}
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			escape(`\x`, path[i])
		case !odd(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			escape(`\U`, byte(r>>24), byte(r>>16), byte(r>>8), byte(r))
		default:
			escape(`\u`, byte(r>>8), byte(r))
		}
		i += n
	}
	return b.String()
}

// PrintableJSON returns JSON text in a form that is safe on a terminal and means the same: it escapes control characters and
// deceptive characters in strings (\u202e).
func PrintableJSON(text []byte) []byte {
	odd := func(r rune) bool { return r >= 0x7f && disguises(r) } // below are only line breaks and spaces between values
	if !bytes.ContainsFunc(text, odd) {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if odd(r) {
			for _, u := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.Bytes()
}

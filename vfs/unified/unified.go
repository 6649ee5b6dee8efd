// Package unified writes how one version of a file differs from another as git diff
// does, so that git apply makes the one of the other, byte for byte: texts in the
// unified format, other contents in git's format for binary files.
package unified

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"capd/vfs"
)

// Modes of a [Side], as git has them.
const (
	Nothing    = 0
	Directory  = 0o040000
	File       = 0o100644
	Executable = 0o100755
	Link       = 0o120000
)

const typeBits = 0o170000

// Side is one of the two that are compared.
type Side struct {
	Path string
	Mode uint32 // a constant of this package, or another of git's; a directory counts as nothing
	Data []byte // the content, or what a link says
	Long bool   // Data is missing: the content is longer than [MaxData]
}

const (
	// MaxText is how long a content may be, in bytes, that is compared line by line.
	// A longer one is written as a binary file is.
	MaxText = 1 << 20
	// MaxData is how long a content may be, in bytes, that is written at all.
	MaxData = 8 << 20
	// MaxPatch is how long what Format writes may be, in bytes. What would be longer
	// is left out.
	MaxPatch = 4<<20 - 4096
)

// Bounds says, for people, what is left out.
const Bounds = "of a file longer than 8 MiB, or of a change whose text is longer than 4 MiB, nothing is in it"

// How says where the new content comes from, if not from the same path.
type How uint8

// The ways.
const (
	InPlace How = iota
	Renamed     // from's path is there no more
	Copied
)

// Format writes one change, texts with three lines of context around each place. same
// says that the contents are known to be the same: then their Data is not needed.
// whole is false, and text empty, when a content is too long to be in it: git apply would
// refuse a patch with a part of the change, and all of the other files' with it.
func Format(from, to Side, how How, same bool) (text string, whole bool) {
	from.settle()
	to.settle()
	if from.Mode != Nothing && to.Mode != Nothing && from.Mode&typeBits != to.Mode&typeBits {
		gone, ok := Format(from, Side{Path: from.Path}, InPlace, false)
		come, whole := Format(Side{Path: to.Path}, to, InPlace, false)
		if !ok || !whole {
			return "", false
		}
		return gone + come, true
	}
	if from.Mode == Nothing && to.Mode == Nothing {
		return "", true
	}
	head := header(from, to, how)
	if same {
		return head, true
	}
	body, whole := content(from, to, len(head))
	if !whole {
		return "", false
	}
	return head + body, true
}

func (s *Side) settle() {
	if s.Mode == Directory {
		*s = Side{Path: s.Path}
	}
}

func header(from, to Side, how How) string {
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git %s %s\n", quote("a/"+from.Path), quote("b/"+to.Path))
	switch {
	case from.Mode == Nothing:
		fmt.Fprintf(&b, "new file mode %06o\n", to.Mode)
	case to.Mode == Nothing:
		fmt.Fprintf(&b, "deleted file mode %06o\n", from.Mode)
	case from.Mode != to.Mode:
		fmt.Fprintf(&b, "old mode %06o\nnew mode %06o\n", from.Mode, to.Mode)
	}
	if verb := [...]string{Renamed: "rename", Copied: "copy"}[how]; verb != "" {
		fmt.Fprintf(&b, "%s from %s\n%s to %s\n", verb, quote(from.Path), verb, quote(to.Path))
	}
	return b.String()
}

// content writes how the contents differ. head is the length of what comes before.
func content(from, to Side, head int) (text string, whole bool) {
	a, z := from.name("a/"), to.name("b/")
	switch {
	case from.Long || to.Long:
		return "", false
	case isText(from.Data) && isText(to.Data):
		text = udiff.Unified(a, z, string(from.Data), string(to.Data))
	default:
		text = binary(from, to)
	}
	return text, head+len(text) <= MaxPatch
}

func (s *Side) name(prefix string) string {
	if s.Mode == Nothing {
		return "/dev/null"
	}
	return quote(prefix + s.Path)
}

// isText reports a content that can be compared line by line, and shown.
func isText(b []byte) bool {
	return len(b) <= MaxText && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// quote writes a path as git does, in quotes if it holds what would not be read right,
// a space too, or acts on a terminal. git reads bytes in octal digits.
func quote(path string) string {
	if vfs.Printable(path) == path && !strings.ContainsAny(path, `"\ `) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		one := path[:n]
		path = path[n:]
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + one)
		case (r != utf8.RuneError || n > 1) && vfs.Printable(one) == one:
			b.WriteString(one)
		default:
			for _, c := range []byte(one) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

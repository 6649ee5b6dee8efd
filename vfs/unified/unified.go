// Package unified writes the difference between two versions of a file as git diff
// does. git apply turns the one into the other, byte for byte. Texts use the unified
// format, other contents git's format for binary files.
package unified

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"capd/vfs"
)

// Git's modes of a [Side].
const (
	Nothing    = 0
	File       = 0o100644
	Executable = 0o100755
	Link       = 0o120000
	Submodule  = 0o160000
)

const typeBits = 0o170000

// Side is one of the two versions.
type Side struct {
	Path string
	Mode uint32 // one of these constants
	Data []byte // the content, or the target of a link
	Long bool   // the content is longer than [MaxData], and Data is empty
}

const (
	// MaxText is the size, in bytes, of the longest content compared line by line.
	// Longer contents are written as binary.
	MaxText = 1 << 20
	// MaxData is the size, in bytes, of the longest content that is written at all.
	MaxData = 8 << 20
	// MaxPatch is the size, in bytes, of the longest text that Format returns. Longer
	// texts are left out.
	MaxPatch = 4<<20 - 4096
)

// Bounds says, for people, what is left out.
const Bounds = "files longer than 8 MiB, and changes whose text is longer than 4 MiB, are left out"

// How says where the new content comes from if not from the same path.
type How uint8

// The values of How.
const (
	InPlace How = iota
	Renamed     // from's path no longer exists
	Copied
)

// Format writes one change. Texts have three lines of context. same says that the
// contents are known to be equal; Data is not needed then. If a content is too long,
// text is empty and whole is false: git apply would refuse a patch with a part of a
// change, and all other files with it.
func Format(from, to Side, how How, same bool) (text string, whole bool) {
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

// content writes how the contents differ. head is the number of bytes already written.
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

// isText reports whether b can be compared line by line and shown.
func isText(b []byte) bool {
	return len(b) <= MaxText && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// quote writes a path as git does. It quotes a path that holds a space, a character
// that git would misread, or one that acts on a terminal. Git reads bytes as octal
// digits.
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

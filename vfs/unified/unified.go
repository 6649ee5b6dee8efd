// Package unified writes how one version of a file differs from another as git diff
// does: in the unified format, with git's headers.
package unified

import (
	"bytes"
	"fmt"
	"strconv"
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

// Side is one of the two that are compared.
type Side struct {
	Path   string
	Mode   uint32 // a constant of this package, or another of git's
	Text   string // the content, or what a link says
	Opaque bool   // Text is missing: the content is no text, or too long to be compared
}

// MaxText is how long a content may be, in bytes, that is compared line by line.
const MaxText = 1 << 20

// Content is a side's Text and Opaque for a content: text is valid UTF-8 without a
// NUL.
func Content(b []byte) (text string, opaque bool) {
	if len(b) > MaxText || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", true
	}
	return string(b), false
}

// Format returns the text of a change, three lines of context around each place. same
// says that the contents are known to be the same, opaque or not: then there are
// headers alone.
func Format(from, to Side, same bool) string {
	var b strings.Builder
	a, z := quote("a/"+from.Path), quote("b/"+to.Path)
	fmt.Fprintf(&b, "diff --git %s %s\n", a, z)
	switch {
	case from.Mode == Nothing:
		fmt.Fprintf(&b, "new file mode %06o\n", to.Mode)
	case to.Mode == Nothing:
		fmt.Fprintf(&b, "deleted file mode %06o\n", from.Mode)
	case from.Mode != to.Mode:
		fmt.Fprintf(&b, "old mode %06o\nnew mode %06o\n", from.Mode, to.Mode)
	}
	if from.Path != to.Path {
		fmt.Fprintf(&b, "rename from %s\nrename to %s\n", quote(from.Path), quote(to.Path))
	}
	if from.Mode == Nothing || from.Mode == Directory {
		a = "/dev/null"
	}
	if to.Mode == Nothing || to.Mode == Directory {
		z = "/dev/null"
	}
	switch {
	case same:
	case from.Opaque || to.Opaque:
		fmt.Fprintf(&b, "Binary files %s and %s differ\n", a, z)
	default:
		b.WriteString(udiff.Unified(a, z, from.Text, to.Text))
	}
	return b.String()
}

// quote writes a path as git does, in quotes if it holds what would not be read right.
func quote(path string) string {
	if vfs.Printable(path) == path && !strings.ContainsAny(path, `"\`) {
		return path
	}
	return strconv.Quote(path)
}

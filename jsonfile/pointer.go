package jsonfile

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"capd/vfs"
)

// pastEnd is the place after the last element of an array (RFC 6901, section 4).
const pastEnd = "-"

// maxPointer bounds a pointer, in bytes.
const maxPointer = 64 << 10

// unescape replaces what stands for "/" and "~" in a name. A replacer looks at each byte
// once, so that ~01 is ~1.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// parse returns the names of a pointer. It answers invalid.
func parse(pointer string) ([]string, error) {
	switch {
	case pointer == "":
		return nil, nil
	case len(pointer) > maxPointer:
		return nil, vfs.Errorf(vfs.Invalid, "the pointer is longer than %d bytes", maxPointer)
	case pointer[0] != '/':
		return nil, vfs.Errorf(vfs.Invalid, "the pointer %s does not begin with \"/\"; it is \"\" or like \"/a/0/b\"", quoted(pointer))
	case !utf8.ValidString(pointer):
		return nil, vfs.Errorf(vfs.Invalid, "the pointer is not UTF-8")
	}
	names := strings.Split(pointer[1:], "/")
	for i, name := range names {
		for rest := name; ; {
			_, after, more := strings.Cut(rest, "~")
			if !more {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, vfs.Errorf(vfs.Invalid, "in the pointer %s a \"~\" stands alone; write ~0 for it, and ~1 for \"/\" in a name", quoted(pointer))
			}
			rest = after
		}
		names[i] = unescape.Replace(name)
	}
	return names, nil
}

// index returns the index that name is, or -1 if an array has no such index: [pastEnd], and
// what is too large for any document. ok is false if name is not an index at all.
func index(name string) (i int, ok bool) {
	if name == pastEnd {
		return -1, true
	}
	if name == "" || name[0] == '0' && len(name) > 1 || strings.Trim(name, "0123456789") != "" {
		return 0, false
	}
	if i, err := strconv.Atoi(name); err == nil {
		return i, true
	}
	return -1, true
}

// prefix returns the first n names of pointer as a pointer, for a message.
func prefix(pointer string, n int) string {
	end := 0
	for range n {
		next := strings.IndexByte(pointer[end+1:], '/')
		if next < 0 {
			end = len(pointer)
			break
		}
		end += 1 + next
	}
	return quoted(pointer[:end])
}

// maxQuoted bounds what a message shows of a pointer, in bytes.
const maxQuoted = 200

// quoted returns s as a message shows it.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:maxQuoted], "")) + "…"
}

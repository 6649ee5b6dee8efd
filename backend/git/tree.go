package git

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// tree is a tree object. Its entries are in byte order of names. Git's own order
// differs: it sorts a directory as if its name ended in "/".
type tree struct {
	raw []byte
	at  []uint32 // where each entry begins in raw

	long   []uint32 // entries whose names are valid in git but not in vfs
	broken bool     // it has entries that git fsck refuses; they are left out
}

// entry is one entry of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	id   plumbing.Hash
}

var noTree = &tree{}

// parseTree parses a tree object. It leaves out dangerous names, and answers
// errMalformed where entries cannot be told apart.
func parseTree(raw []byte) (*tree, error) {
	t := &tree{raw: raw}
	sorted, last := true, ""
	for off := 0; off < len(raw); {
		end, ok := entryEnd(raw[off:])
		if !ok {
			return nil, errMalformed
		}
		e := t.entry(uint32(off))
		switch {
		case !knownMode(e.mode) || e.id.IsZero() || isDotGit(e.name):
			t.broken = true
		case vfs.CheckName(e.name) == nil:
			t.at = append(t.at, uint32(off))
			sorted = sorted && last < e.name
			last = e.name
		case len(e.name) > vfs.MaxName && !strings.ContainsAny(e.name, "/"):
			t.long = append(t.long, uint32(off))
		default:
			t.broken = true
		}
		off += end
	}
	if !sorted {
		t.sort()
	}
	return t, nil
}

// sort sorts the entries. Of several with one name it keeps the first.
func (t *tree) sort() {
	slices.SortStableFunc(t.at, func(a, b uint32) int { return bytes.Compare(t.name(a), t.name(b)) })
	n := len(t.at)
	t.at = slices.CompactFunc(t.at, func(a, b uint32) bool { return bytes.Equal(t.name(a), t.name(b)) })
	t.broken = t.broken || len(t.at) < n
}

// entryEnd returns the length of the entry at the beginning of b: a mode in octal
// digits, a space, a name, a NUL and an id.
func entryEnd(b []byte) (int, bool) {
	space := bytes.IndexByte(b[:min(len(b), 8)], ' ')
	if space < 5 || strings.Trim(string(b[:space]), "01234567") != "" {
		return 0, false
	}
	null := bytes.IndexByte(b, 0)
	end := null + 1 + idLen
	return end, null > space && end <= len(b)
}

func knownMode(m filemode.FileMode) bool {
	switch m {
	case filemode.Dir, filemode.Regular, filemode.Deprecated, filemode.Executable, filemode.Symlink, filemode.Submodule:
		return true
	}
	return false
}

// name returns the name of the entry at off.
func (t *tree) name(off uint32) []byte {
	b := t.raw[off:]
	b = b[bytes.IndexByte(b[:8], ' ')+1:]
	return b[:bytes.IndexByte(b, 0)]
}

// entry returns the entry at off.
func (t *tree) entry(off uint32) entry {
	name := t.name(off)
	var mode filemode.FileMode
	for _, c := range t.raw[off : off+8] {
		if c == ' ' {
			break
		}
		mode = mode<<3 | filemode.FileMode(c-'0')
	}
	b := t.raw[off:]
	b = b[bytes.IndexByte(b[:8], ' ')+1+len(name)+1:]
	return entry{name: string(name), mode: mode, id: plumbing.Hash(b[:idLen])}
}

// find returns the entry called name.
func (t *tree) find(name string) (entry, bool) {
	i, ok := slices.BinarySearchFunc(t.at, name, func(off uint32, name string) int {
		return cmp.Compare(string(t.name(off)), name)
	})
	if !ok {
		return entry{}, false
	}
	return t.entry(t.at[i]), true
}

// kindOf returns the kind of node that an entry is.
func kindOf(m filemode.FileMode) vfs.Kind {
	switch m {
	case filemode.Dir, filemode.Submodule:
		return vfs.DirKind
	case filemode.Symlink:
		return vfs.LinkKind
	}
	return vfs.FileKind
}

// isExec reports whether a file with this mode is executable.
func isExec(m filemode.FileMode) bool { return m == filemode.Executable }

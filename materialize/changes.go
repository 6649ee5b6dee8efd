package materialize

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
)

// Changes is how a tree differs from what was materialized.
type Changes struct {
	List    []batch.Change // in byte order of paths; contents are read from the tree, and busy when they have changed since
	Skipped []Skipped      // what is changed and is not brought back, in byte order of paths
}

// Changes looks at the tree. It reads the files that seem to have changed and no
// others. It answers limit for a tree beyond its bounds, before it reads what is
// beyond, and busy for a file that changes while it is read.
func (t *Tree) Changes(ctx context.Context) (Changes, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look, err := t.look(ctx, nil)
	if err != nil {
		return Changes{}, err
	}
	return look.changes(), nil
}

// look is one look at a tree.
type look struct {
	ctx     context.Context
	t       *Tree
	only    scope // nil: all
	id      uint64
	found   []finding
	skipped map[string]string // why, by path
	kept    map[string]bool   // directories of which something is left as it is, unseen
	entries int
	bytes   int64 // of files
	disk    int64 // that they take up beyond that
	buf     [64 << 10]byte
}

// slack is how much more than its bytes a file may take up on the disk, in bytes,
// before that counts.
const slack = 64 << 10

// finding is an entry that is not as its record has it; r is what its record
// should be, nil when it is gone.
type finding struct {
	path string
	was  batch.State
	r    *record
}

// look compares the tree with the records. t.mu is held.
func (t *Tree) look(ctx context.Context, only scope) (*look, error) {
	if t.closed {
		return nil, errClosed
	}
	t.looks++
	l := &look{ctx: ctx, t: t, only: only, id: t.looks, skipped: map[string]string{}, kept: map[string]bool{}}
	top, err := t.root.Open(".")
	if err != nil {
		return nil, explain(err)
	}
	defer top.Close()
	if err := t.there(top); err != nil {
		return nil, err
	}
	if err := l.dir(t.root, top, "", 1); err != nil {
		return nil, err
	}
	l.gone()
	l.keep()
	slices.SortFunc(l.found, func(a, b finding) int { return strings.Compare(a.path, b.path) })
	return l, nil
}

// there makes sure that the tree is where it was made: of one that was removed as
// a whole, everything would seem to be gone.
func (t *Tree) there(top *os.File) error {
	mine, err := top.Stat()
	if err != nil {
		return explain(err)
	}
	now, err := t.place.root.Lstat(t.place.name + "/" + treeName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err)
	}
	if err != nil || !os.SameFile(mine, now) {
		return vfs.Errorf(vfs.Stale, "the directory was removed or replaced; materialize it again")
	}
	return nil
}

func (l *look) changes() Changes {
	var c Changes
	for _, f := range l.found {
		change := batch.Change{Path: f.path, Was: f.was}
		if f.r != nil {
			change.Becomes = f.r.state
			if f.r.state.Kind == vfs.FileKind {
				change.Content = l.t.opener(f.path, f.r.attr)
			}
		}
		c.List = append(c.List, change)
	}
	for path, why := range l.skipped {
		c.Skipped = append(c.Skipped, Skipped{path, why})
	}
	slices.SortFunc(c.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Path, b.Path) })
	return c
}

// concerns reports whether what is at path may be brought back.
func (l *look) concerns(path string) bool {
	return (l.only == nil || l.only.has(path)) && !l.t.readOnly.has(path)
}

// gone writes down the records that were not seen, and what of these is to be left
// as it is: what lies in something that is skipped, or is not looked at.
func (l *look) gone() {
	for path, r := range l.t.records {
		switch {
		case r.seen == l.id:
		case l.concerns(path) && !l.inSkipped(path):
			l.found = append(l.found, finding{path, r.state, nil})
		default:
			for dir := parent(path); dir != "" && !l.kept[dir]; dir = parent(dir) {
				l.kept[dir] = true
			}
		}
	}
}

// keep makes sure that no directory goes that holds what is left as it is.
func (l *look) keep() {
	l.found = slices.DeleteFunc(l.found, func(f finding) bool {
		goes := f.was.Kind == vfs.DirKind && l.kept[f.path]
		if goes {
			l.skipped[f.path] = "a directory that holds what is not brought back"
		}
		return goes
	})
}

func (l *look) inSkipped(path string) bool {
	for ; path != ""; path = parent(path) {
		if l.skipped[path] != "" {
			return true
		}
	}
	return false
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

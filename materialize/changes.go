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
	List    []batch.Change // what Sync would bring back, in byte order of paths; contents are read from the tree, and busy when they have changed since
	Skipped []Skipped      // what is changed and is not brought back, in byte order of paths; of a directory that is left whole, the directory alone
}

// Changes looks at the tree. It reads the files that seem to have changed and no
// others. It answers limit for a tree beyond its bounds, before it reads what is
// beyond, and busy for a file that changes while it is read. It does not ask the
// Dir's guards: what these refuse, Sync finds out.
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
	found   []finding // in byte order of paths, once all is seen
	entries int
	bytes   int64 // of files
	disk    int64 // that they take up beyond that
	several map[inode]*several
	winding []string // links that are as they were, and go up after a name
	buf     [64 << 10]byte

	left    []Skipped         // what the walk found not to be brought back
	closed  bool              // some of that could not be looked at
	stays   []string          // paths that the Dir has, and that nobody looks at
	out     map[string]bool   // what is not brought back
	skipped map[string]string // why, for what is named
	removed removals
}

// slack is how much more than its bytes a file may take up on the disk, in bytes,
// before that counts.
const slack = 64 << 10

// finding is an entry that is not as its record has it.
type finding struct {
	path string
	old  *record // nil when the entry is new
	r    *record // what its record should be; nil when the entry is gone
}

func (f finding) was() batch.State {
	if f.old == nil {
		return batch.State{}
	}
	return f.old.state
}

func (f finding) becomes() batch.State {
	if f.r == nil {
		return batch.State{}
	}
	return f.r.state
}

// look compares the tree with the records. t.mu is held.
func (t *Tree) look(ctx context.Context, only scope) (*look, error) {
	if t.closed {
		return nil, errClosed
	}
	t.looks++
	l := &look{ctx: ctx, t: t, only: only, id: t.looks, several: map[inode]*several{}, out: map[string]bool{}, skipped: map[string]string{}}
	if err := t.open(); err != nil {
		return nil, err
	}
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
	if err := l.linked(); err != nil {
		return nil, err
	}
	l.gone()
	slices.SortFunc(l.found, func(a, b finding) int { return strings.Compare(a.path, b.path) })
	l.refuseAll()
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

// open lets this process work in the tree itself, whatever a program made of its mode.
func (t *Tree) open() error {
	err := open(t.place.root, t.place.name+"/"+treeName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there says so
	}
	return explain(err)
}

// changes are the findings that are brought back, and what is not.
func (l *look) changes() Changes {
	var c Changes
	for _, f := range l.found {
		if l.out[f.path] {
			continue
		}
		change := batch.Change{Path: f.path, Was: f.was(), Becomes: f.becomes()}
		if change.Becomes.Kind == vfs.FileKind {
			change.Content = l.t.opener(f.path, f.r.attr)
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

// gone finds the records that were not seen. Those that are not looked at stay.
func (l *look) gone() {
	l.stays = append(l.stays, l.t.absent...)
	for path, r := range l.t.records {
		switch {
		case r.seen == l.id:
		case l.concerns(path):
			l.found = append(l.found, finding{path, r, nil})
		default:
			l.stays = append(l.stays, path)
		}
	}
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

package materialize

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"capd/hostfile"
	"capd/vfs"
	"capd/vfs/diff"
)

// Changes is how a tree differs from what was materialized.
type Changes struct {
	List    []diff.Change  // what Sync would bring back, in byte order of paths. Contents are read from the tree; they answer busy when they have changed since
	Skipped []diff.Skipped // changes that are not brought back, in byte order of paths; for a directory left out as a whole, only the directory
}

// Changes returns the changes in the tree. It reads only files that seem to have
// changed. It answers limit for a tree beyond its bounds, without reading what is
// beyond, and busy for a file that changes while it is read. It does not ask the Dir's
// guards; Sync does.
func (t *Tree) Changes(ctx context.Context) (Changes, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	comparison, err := t.compare(ctx, nil)
	if err != nil {
		return Changes{}, err
	}
	return comparison.changes(), nil
}

// comparison is one comparison of a tree with its records.
type comparison struct {
	ctx     context.Context
	t       *Tree
	only    scope // nil means all
	id      uint64
	found   []finding // in byte order of paths, once the walk is done
	entries int
	bytes   int64 // of files
	disk    int64 // bytes on disk beyond that
	several map[inode]*several
	winding []string // unchanged links that go up after a name
	buf     [64 << 10]byte

	left    []diff.Skipped    // what the walk found and cannot bring back
	closed  bool              // some of that could not be read
	stays   []string          // paths that the Dir has and the walk does not visit
	out     map[string]bool   // paths that are not brought back
	skipped map[string]string // why, for those that are reported
	removed removals
}

// slack is how many more bytes on disk than in size a file may use before they count.
const slack = 64 << 10

// finding is an entry that differs from its record.
type finding struct {
	path string
	old  *record // nil when the entry is new
	r    *record // what its record should be; nil when the entry was removed
}

func (f finding) was() diff.State     { return f.old.stateOf() }
func (f finding) becomes() diff.State { return f.r.stateOf() }

// compare compares the tree with the records. Needs t.mu.
func (t *Tree) compare(ctx context.Context, only scope) (*comparison, error) {
	if t.closed {
		return nil, errClosed
	}
	t.looks++
	l := &comparison{ctx: ctx, t: t, only: only, id: t.looks, several: map[inode]*several{}, out: map[string]bool{}, skipped: map[string]string{}}
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

// there checks that the tree is where it was made. If the whole tree was removed, every
// entry would seem to be removed.
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

// open sets the mode of the tree so that this process can work in it.
func (t *Tree) open() error {
	err := hostfile.Unlock(t.place.root, t.place.name+"/"+treeName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there will report it
	}
	return explain(err)
}

// changes returns the findings to bring back, and the skipped ones.
func (l *comparison) changes() Changes {
	var c Changes
	for _, f := range l.found {
		if l.out[f.path] {
			continue
		}
		was, is := f.was(), f.becomes()
		change := diff.Change{Path: f.path, Kind: diff.KindOf(was, is), Was: was, Is: is}
		if change.Is.Kind == vfs.FileKind {
			change.Content = l.t.opener(f.path, f.r.attr)
		}
		c.List = append(c.List, change)
	}
	for path, why := range l.skipped {
		c.Skipped = append(c.Skipped, diff.Skipped{Path: path, Why: why})
	}
	slices.SortFunc(c.Skipped, func(a, b diff.Skipped) int { return cmp.Compare(a.Path, b.Path) })
	return c
}

// concerns reports whether path may be brought back.
func (l *comparison) concerns(path string) bool {
	return (l.only == nil || l.only.has(path)) && !l.t.readOnly.has(path)
}

// gone finds the records of removed entries, which the walk did not see. It leaves out
// those that the walk does not visit.
func (l *comparison) gone() {
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

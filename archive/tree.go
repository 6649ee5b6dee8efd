package archive

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

// entry is a file or a directory of an archive.
type entry struct {
	holds map[string]*entry // of a directory
	said  bool              // the archive names this directory itself
	info  vfs.Info
	open  func(context.Context) (vfs.Content, error)
}

func newDir() *entry {
	return &entry{holds: map[string]*entry{}, info: vfs.Info{Kind: vfs.DirKind}}
}

// addDir adds the directory at path, and those that lead to it.
func (t *Tree) addDir(path string) error {
	d, name, err := t.place(path)
	if err != nil || name == "" {
		return err
	}
	switch there := d.holds[name]; {
	case there == nil:
		if err := t.count(0); err != nil {
			return err
		}
		d.holds[name] = newDir()
		d.holds[name].said = true
	case there.holds == nil, there.said:
		return twice(path)
	default:
		there.said = true
	}
	return nil
}

// addFile adds a file of size bytes at path.
func (t *Tree) addFile(path string, size int64, exec bool, at time.Time, open func(context.Context) (vfs.Content, error)) error {
	d, name, err := t.place(path)
	switch {
	case err != nil:
		return err
	case name == "":
		return vfs.Errorf(vfs.Invalid, "an entry of the archive has no name")
	case size < 0:
		return vfs.Errorf(vfs.Invalid, "%s: its size is below 0", vfs.Printable(path))
	case d.holds[name] != nil:
		return twice(path)
	}
	if err := t.count(size); err != nil {
		return err
	}
	info := vfs.Info{Kind: vfs.FileKind, Size: size, Exec: exec}
	if !at.IsZero() {
		info.ModifiedMs = at.UnixMilli()
	}
	d.holds[name] = &entry{info: info, open: open}
	return nil
}

func twice(path string) error {
	return vfs.Errorf(vfs.Exists, "the archive has two entries called %s", vfs.Printable(path))
}

// place returns the directory of the entry at path, which it makes, and the entry's name
// there. The name is "" for the top itself.
func (t *Tree) place(path string) (d *entry, name string, err error) {
	clean := strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	if clean == "" || clean == "." {
		return t.root, "", nil
	}
	names, err := vfs.SplitPath(clean)
	for i := 0; i < len(names) && err == nil; i++ {
		err = vfs.CheckNewName(names[i])
	}
	if err != nil {
		return nil, "", vfs.Errorf(vfs.CodeOf(err), "the archive has an entry called %s: %s", vfs.Printable(path), vfs.Message(err))
	}
	d = t.root
	for _, n := range names[:len(names)-1] {
		switch next := d.holds[n]; {
		case next == nil:
			if err := t.count(0); err != nil {
				return nil, "", err
			}
			next = newDir()
			d.holds[n] = next
			d = next
		case next.holds == nil:
			return nil, "", vfs.Errorf(vfs.Exists, "the archive has an entry %s below a file", vfs.Printable(path))
		default:
			d = next
		}
	}
	return d, names[len(names)-1], nil
}

// count counts one more entry of size bytes.
func (t *Tree) count(size int64) error {
	t.entries++
	switch l := t.limits; {
	case t.entries > l.Entries:
		return vfs.Errorf(vfs.Limit, "the archive has more than %d files and directories", l.Entries)
	case size > l.Bytes-t.bytes:
		return vfs.Errorf(vfs.Limit, "the files of the archive have more than %d bytes", l.Bytes)
	}
	t.bytes += size
	return cmp.Or(t.dense(t.bytes), t.limits.Memory(entryBytes))
}

// entryBytes is about how much memory an entry takes in the tree.
const entryBytes = 512

// dense answers limit if the archive holds too many bytes for its size.
func (t *Tree) dense(bytes int64) error {
	if bytes > freeBytes && bytes/t.limits.Ratio > t.packed {
		return vfs.Errorf(vfs.Limit, "the archive holds more than %d times its size", t.limits.Ratio)
	}
	return nil
}

// listing is a directory of an open archive.
type listing struct {
	tree *Tree
	*entry
}

// Lookup implements [vfs.Listing].
func (l listing) Lookup(_ context.Context, name string) (vfs.Node, error) {
	e := l.holds[name]
	switch {
	case l.tree.closed.Load():
		return nil, vfs.Stale
	case e == nil:
		return nil, vfs.NotFound
	case e.holds != nil:
		return vfs.NewImmutableDir(listing{l.tree, e}), nil
	}
	return vfs.NewImmutableFile(e.info, func(ctx context.Context) (vfs.Content, error) {
		if l.tree.closed.Load() {
			return nil, vfs.Stale
		}
		return e.open(ctx)
	}), nil
}

// List implements [vfs.Listing].
func (l listing) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		names := make([]string, 0, len(l.holds))
		for name := range l.holds {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(vfs.Entry{Name: name, Kind: l.holds[name].info.Kind}, nil) {
				return
			}
		}
	}
}

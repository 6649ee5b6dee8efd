package git

import (
	"iter"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// item is what a directory holds at a name: an entry of a tree, or what was written in
// its place. An item is never changed, only replaced; what data and dir point to does
// change.
type item struct {
	entry

	data   *content   // of a file that was written
	target string     // of a link that was made
	dir    *directory // of a directory with changes
	self   identity   // of a directory; zero if it is at its place in the tree
	ms     int64      // time of creation or writing; 0 means the commit's
}

func (it *item) kind() vfs.Kind { return kindOf(it.mode) }

func (it *item) isSubmodule() bool { return it.mode == filemode.Submodule }

// written reports whether an item, not a directory, is not in the repository yet.
func (it *item) written() bool { return it.data != nil || it.target != "" }

// identity identifies a directory wherever it moves: by the number it got when it was
// made, or else by its path in the tree that the store began with. The zero identity is
// the root's.
type identity struct {
	made uint64
	path string // below the directory numbered made, if that is not 0
}

// below returns the identity of an unmoved directory called name in id's directory.
func (id identity) below(name string) identity { return identity{id.made, vfs.Join(id.path, name)} }

// directory is a tree with changes on it. Without changes it needs no more memory than
// the tree; otherwise it costs only what was changed. It is guarded by Store.mu.
type directory struct {
	tree      *tree
	over      map[string]*item // a nil value means removed; a nil map means that it never changes
	count     int              // number of names
	ms        int64            // when an entry was added or removed; 0 means the commit's time
	submodule bool
}

func unchanged(t *tree) *directory { return &directory{tree: t, count: len(t.at)} }

// changeable returns a copy of an unchanged d that can be changed.
func (d *directory) changeable() *directory {
	return &directory{tree: d.tree, over: map[string]*item{}, count: d.count}
}

func (d *directory) find(name string) *item {
	if it, ok := d.over[name]; ok {
		return it
	}
	if e, ok := d.tree.find(name); ok {
		return &item{entry: e}
	}
	return nil
}

// put replaces the entry called name by it. If it is nil, put removes the entry.
func (d *directory) put(name string, it *item, ms int64) {
	had := d.find(name)
	if had != nil && had.data != nil && (it == nil || it.data != had.data) {
		had.data.release()
	}
	if had != nil {
		d.count--
	}
	if it != nil {
		d.count++
	}
	if _, ok := d.tree.find(name); it == nil && !ok {
		delete(d.over, name)
	} else {
		d.over[name] = it
	}
	d.ms = ms
}

// all yields d's items, in byte order of names.
func (d *directory) all() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		over := slices.Sorted(maps.Keys(d.over))
		for _, off := range d.tree.at {
			name := d.tree.name(off)
			for len(over) > 0 && over[0] < string(name) {
				if it := d.over[over[0]]; it != nil && !yield(it) {
					return
				}
				over = over[1:]
			}
			it := (*item)(nil)
			if len(over) > 0 && over[0] == string(name) {
				it, over = d.over[over[0]], over[1:]
			} else {
				it = &item{entry: d.tree.entry(off)}
			}
			if it != nil && !yield(it) {
				return
			}
		}
		for _, name := range over {
			if it := d.over[name]; it != nil && !yield(it) {
				return
			}
		}
	}
}

// isChanged reports whether a commit of d would have another tree. It may be wrong
// about entries that were changed and changed back.
func (d *directory) isChanged() bool {
	for name, it := range d.over {
		was, had := d.tree.find(name)
		switch {
		case it == nil, it.written(), had && (was.mode != it.mode || was.id != it.id):
			return true
		case it.dir != nil && it.dir.isChanged():
			return true
		case !had && (it.kind() != vfs.DirKind || it.dir == nil || len(it.dir.tree.at) > 0):
			return true
		}
	}
	return false
}

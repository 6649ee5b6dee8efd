package git

import (
	"iter"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// item is what a directory holds at a name: an entry of a tree, or what was written in
// its place. Items are never changed, only put in place of others; what data and dir
// point to is.
type item struct {
	entry

	data   *content   // of a file that was written
	target string     // of a link that was made
	dir    *directory // of a directory in which something changed
	self   identity   // of a directory; zero for one that is where its tree has it
	ms     int64      // when it was made or written; 0: with the commit
}

func (it *item) kind() vfs.Kind { return kindOf(it.mode) }

func (it *item) isSubmodule() bool { return it.mode == filemode.Submodule }

// written reports whether an item of no directory is not in the repository yet.
func (it *item) written() bool { return it.data != nil || it.target != "" }

// identity tells a directory from every other that the store shows, wherever it moves:
// by the number that it was given when it was made, or else by its path in the tree that
// the store began with. Zero is the root's.
type identity struct {
	made uint64
	path string // below the directory that was made, if it is not 0
}

// below is the identity of a directory that is where the tree of id's directory has it.
func (id identity) below(name string) identity { return identity{id.made, vfs.Join(id.path, name)} }

// directory is a tree with changes upon it. A directory without any is as small as its
// tree; one of many files costs what was changed in it. All of it is guarded by
// Store.mu.
type directory struct {
	tree      *tree
	over      map[string]*item // nil values: removed. A nil map: nothing changed, nor ever will
	count     int              // names
	ms        int64            // when something was put or taken; 0: with the commit
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

// put puts it in place of what has its name; nil name takes that away.
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

// all yields what d holds, in byte order of names.
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

// isChanged reports whether a commit of d would have another tree than its own. It may be
// wrong about what was changed and changed back.
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

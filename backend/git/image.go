package git

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// image is a changed directory at one moment. Git's objects are made from it while the
// directory itself changes further.
type image struct {
	of   *directory
	tree *tree
	over map[string]*item
	dirs map[string]*image // the changed directories in over

	id   plumbing.Hash // of the tree made from it
	made *tree         // nil until then
}

// freeze returns an image of d, which the caller releases. Needs Store.mu for reading.
func freeze(d *directory) *image {
	im := &image{of: d, tree: d.tree, over: maps.Clone(d.over), dirs: map[string]*image{}}
	for name, it := range im.over {
		switch {
		case it == nil:
		case it.data != nil:
			it.data.frozen.Store(true)
			it.data.hold()
		case it.dir != nil:
			im.dirs[name] = freeze(it.dir)
		}
	}
	return im
}

func (im *image) release() {
	for _, it := range im.over {
		if it != nil && it.data != nil {
			it.data.release()
		}
	}
	for _, below := range im.dirs {
		below.release()
	}
}

// builder makes the objects of an image.
type builder struct {
	s     *Store
	write bool // write them into the repository; otherwise only compute their ids
	trees map[plumbing.Hash]*tree
	named map[string]bool // directories of the objects that were made or found
}

// build makes the tree of an image and all new objects in it. It stops at the first
// that git would refuse.
func (b *builder) build(ctx context.Context, im *image, depth int) error {
	if depth > maxTreeDepth {
		return errDeep
	}
	if im.tree.broken {
		return vfs.Errorf(vfs.Corrupt, "a changed directory has names that git fsck refuses; the host has to repair it first")
	}
	var entries []entry
	for _, off := range slices.Concat(im.tree.at, im.tree.long) {
		e := im.tree.entry(off)
		if _, ok := im.over[e.name]; ok {
			continue
		}
		if e.mode == filemode.Deprecated { // group-writable, as early versions of git made files
			e.mode = filemode.Regular
		}
		entries = append(entries, e)
	}
	for name, it := range im.over {
		if it == nil {
			continue
		}
		e, err := b.entry(ctx, it, im.dirs[name], depth)
		if err != nil {
			return err
		}
		if !e.id.IsZero() {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 && depth > 0 {
		im.made = noTree
		return nil
	}
	raw := formatTree(entries)
	id, err := b.put(ctx, plumbing.TreeObject, int64(len(raw)), strings.NewReader(raw))
	if err != nil {
		return err
	}
	if im.made, err = parseTree([]byte(raw)); err != nil {
		return corrupt(id, "was made wrongly")
	}
	im.id, b.trees[id] = id, im.made
	return nil
}

// entry returns the tree entry of an item, with the zero id for an empty directory.
func (b *builder) entry(ctx context.Context, it *item, below *image, depth int) (e entry, err error) {
	e = it.entry
	switch {
	case below != nil:
		err = b.build(ctx, below, depth+1)
		e.id = below.id
	case it.data != nil:
		e.id, err = b.content(ctx, it.data)
	case it.target != "":
		e.id, err = b.put(ctx, plumbing.BlobObject, int64(len(it.target)), strings.NewReader(it.target))
	}
	if err == nil && it.kind() == vfs.FileKind {
		err = b.s.checkSpecial(ctx, it)
	}
	return e, err
}

// content makes the blob of a frozen content.
func (b *builder) content(ctx context.Context, c *content) (plumbing.Hash, error) {
	if id := c.id.Load(); id != nil && !b.write {
		return *id, nil
	}
	id, err := b.put(ctx, plumbing.BlobObject, c.size, c)
	if err == nil {
		c.id.Store(&id)
	}
	return id, err
}

// formatTree encodes entries in git's order.
func formatTree(entries []entry) string {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	var raw strings.Builder
	for _, e := range entries {
		raw.WriteString(strconv.FormatUint(uint64(e.mode), 8))
		raw.WriteByte(' ')
		raw.WriteString(e.name)
		raw.WriteByte(0)
		raw.Write(e.id[:])
	}
	return raw.String()
}

func (e entry) sortName() string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}

// settle bases d, from which im was made, on the tree that im became. Entries that have
// not changed since are no longer changes. Needs Store.mu.
func (d *directory) settle(im *image) {
	d.tree = im.made
	for name, it := range maps.Clone(d.over) {
		then, ok := im.over[name]
		if !ok {
			continue
		}
		if it == nil {
			if then == nil {
				delete(d.over, name)
			}
			continue
		}
		e, committed := d.tree.find(name)
		below := im.dirs[name]
		switch {
		case it.dir != nil && below != nil && below.of == it.dir:
			it.dir.settle(below)
			now := *it
			if committed {
				now.id = e.id
				if len(it.dir.over) == 0 {
					now.dir = nil
				}
			} else {
				now.id = plumbing.ZeroHash
			}
			if d.over[name] = &now; now.dir == nil && now.self == (identity{}) {
				delete(d.over, name)
			}
		case it == then && it.kind() != vfs.DirKind:
			if it.data != nil {
				it.data.release()
			}
			delete(d.over, name)
		}
	}
}

// has reports whether the repository has an object, and makes git keep it for a while.
func (o *objects) has(id plumbing.Hash) (bool, error) {
	at, err := o.find(id)
	switch {
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return false, nil
	case err != nil:
		return false, err
	case at.loose != nil: // it may not have been flushed
		err := flush(at.loose.f)
		at.loose.close()
		if err != nil {
			return false, nil // it is written again, and flushed
		}
		o.freshen(at.loose.path)
	default:
		o.freshen(strings.TrimSuffix(at.p.path, ".idx") + ".pack")
	}
	return true, nil
}

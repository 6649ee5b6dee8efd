package physical

import (
	"context"
	"errors"
	"slices"
	"strings"

	"capd/vfs"
)

// Dir is a directory of the served tree: its place and its identity. It is stale when
// it is moved, or when another node is in its place.
type Dir struct {
	node
	at place
}

var (
	_ vfs.Dir        = (*Dir)(nil)
	_ vfs.Trier      = (*Dir)(nil)
	_ vfs.PathLooker = (*Dir)(nil)
	_ vfs.Scanner    = (*Dir)(nil)
	_ vfs.Visitor    = (*Dir)(nil)
	_ vfs.Searcher   = (*Dir)(nil)
	_ vfs.Symlinker  = (*Dir)(nil)
	_ vfs.Installer  = (*Dir)(nil)
	_ vfs.Identifier = (*Dir)(nil)
)

// Stat answers stale once the directory was moved, removed or replaced, and crossDevice
// once another filesystem is mounted over it.
func (d *Dir) Stat(ctx context.Context) (vfs.Info, error) {
	if info, ok := vfs.Recall(ctx, d); ok {
		return info, d.usable(ctx)
	}
	if err := d.usable(ctx); err != nil {
		return vfs.Info{}, err
	}
	dir, err := d.s.enterFor(ctx, d.at)
	if err != nil {
		return vfs.Info{}, err
	}
	defer d.s.leave(dir)
	a, err := standing(dir)
	if err != nil {
		return vfs.Info{}, err
	}
	return a.info(), nil
}

// standing returns the attributes of dir, unless it was removed.
func standing(dir directory) (attr, error) {
	a, err := dir.attr()
	if err != nil {
		return attr{}, explain(err)
	}
	if a.nlink == 0 {
		return attr{}, vfs.At("", vfs.Stale)
	}
	return a, nil
}

// Identity implements vfs.Identifier: the inode number and the time of birth, or the file
// system's handle where it keeps no such time.
func (d *Dir) Identity(ctx context.Context) (string, error) {
	dir, err := d.enter(ctx, d.at)
	if err != nil {
		return "", err
	}
	defer d.s.leave(dir)
	if _, err := standing(dir); err != nil {
		return "", err
	}
	id, err := dir.ident()
	if err != nil {
		return "", explain(err)
	}
	text := id.lasting()
	if text == "" {
		return "", vfs.Errorf(vfs.Unsupported, "this file system does not say when a directory was made")
	}
	return text, nil
}

// Lookup answers limit if the path would be longer or deeper than package vfs allows.
func (d *Dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := d.checkDepth(name); err != nil {
		return nil, err
	}
	dir, err := d.s.enterFor(ctx, d.at)
	if err != nil {
		return nil, err
	}
	defer d.s.leave(dir)
	return d.found(ctx, dir, d.at, name, vfs.Join(d.at.path, name))
}

// LookPath implements vfs.PathLooker where the kernel confines: it resolves the whole
// path to the directory of the last name at once.
func (d *Dir) LookPath(ctx context.Context, names []string) (vfs.Node, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	last := len(names) - 1
	if last == 0 {
		return d.Lookup(ctx, names[0])
	}
	for _, name := range names {
		if checkName(name) != nil {
			return nil, vfs.ErrStepwise
		}
	}
	path := vfs.JoinAll(d.at.path, names)
	if vfs.CheckPathSize(path) != nil {
		return nil, vfs.ErrStepwise
	}
	dir, err := d.s.enterFor(ctx, d.at)
	if err != nil {
		return nil, err
	}
	defer d.s.leave(dir)
	parent := path[:len(path)-1-len(names[last])]
	in, id, err := dir.below(parent)
	if err != nil {
		return nil, absent(dir, d.at, err)
	}
	defer in.release()
	return d.found(ctx, in, place{parent, id}, names[last], path)
}

// found returns the node called name, whose path is path, in dir, which is the directory
// at in.
func (n *node) found(ctx context.Context, dir directory, in place, name, path string) (vfs.Node, error) {
	a, id, err := dir.look(name)
	if err != nil {
		return nil, absent(dir, in, err)
	}
	var found vfs.Node
	switch a.kind {
	case vfs.DirKind:
		found = &Dir{node: n.like(), at: place{path, id}}
	case vfs.LinkKind:
		return &Link{spot{n.like(), in, name, path}}, nil
	case vfs.FileKind:
		found = &File{spot: spot{n.like(), in, name, path}}
	default:
		return nil, a.regular()
	}
	vfs.Remember(ctx, found, a.info())
	return found, nil
}

// absent explains why a name in dir, which is at p, could not be looked up. The served
// directory itself is kept open, so only this shows that it was removed.
func absent(dir directory, p place, err error) error {
	if p.path == "" && isNotExist(err) {
		if a, err := dir.attr(); err == nil && a.nlink == 0 {
			return vfs.At("", vfs.Stale)
		}
	}
	return explain(err)
}

func (d *Dir) spot(name string) spot {
	return spot{node: d.like(), in: d.at, name: name, path: vfs.Join(d.at.path, name)}
}

func (d *Dir) child(dir directory, name string) (*Dir, error) {
	sub, id, err := dir.sub(name)
	if err != nil {
		return nil, explain(err)
	}
	sub.release()
	return &Dir{node: d.like(), at: place{vfs.Join(d.at.path, name), id}}, nil
}

func (d *Dir) checkDepth(name string) error {
	depth := 1
	if d.at.path != "" {
		depth = 2 + strings.Count(d.at.path, "/")
	}
	switch {
	case depth > vfs.MaxDepth && depth-stagedDepth(d.at.path) > vfs.MaxDepth:
		return vfs.Errorf(vfs.Limit, "this is more than %d directories deep; ask the host to serve a directory on the way", vfs.MaxDepth)
	case len(d.at.path)+1+len(name) > vfs.MaxPath:
		return vfs.Errorf(vfs.Limit, "its path is longer than %d bytes; ask the host to serve a directory on the way", vfs.MaxPath)
	}
	return nil
}

var errFound = errors.New("found")

// Any implements vfs.Searcher.
func (d *Dir) Any(ctx context.Context, is func(vfs.Entry) bool) (bool, error) {
	dir, err := d.enter(ctx, d.at)
	if err != nil {
		return false, err
	}
	err = dir.entries(func(some []vfs.Entry) error {
		for _, e := range some {
			if !hidden(e.Name) && is(e) {
				return errFound
			}
		}
		return d.usable(ctx)
	})
	d.s.leave(dir)
	if err == errFound {
		return true, nil
	}
	return false, gone(err)
}

// listed returns the entries of all that List yields.
func listed(all []vfs.Entry) []vfs.Entry {
	all = slices.DeleteFunc(all, func(e vfs.Entry) bool { return hidden(e.Name) })
	slices.SortFunc(all, func(a, b vfs.Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
)

// Revert drops the changes at and below paths; nil means all. A node that was open
// there is stale, or reads the lower tree again. A move is reverted at both of its
// places or not at all, and so is a removed directory with what it held: otherwise
// Revert answers invalid and says which path to add. The revert is one step, and
// durable. Its growth counts in ctx's committers.
func (o *Overlay) Revert(ctx context.Context, paths []string) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	s := o.snapshot()
	chosen, err := s.choose(paths, false)
	if err != nil {
		return err
	}
	edits, err := o.reverts(ctx, s, chosen)
	if err != nil {
		return err
	}
	at := s.touched(chosen)
	inner := inside(context.WithoutCancel(ctx))
	before := sizes(inner, at, o.open)
	return vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		if err := o.make(inner, edits, true, nil); err != nil {
			return vfs.Effect{}, err
		}
		return grown(before, sizes(inner, at, o.open)), nil
	})
}

// touched returns the paths at which a revert of chosen may change a node.
func (s *snapshot) touched(chosen *selection) map[string]bool {
	paths := map[string]bool{}
	for path := range s.bases {
		paths[path] = chosen.has(path)
	}
	for _, n := range s.nodes {
		paths[n.path] = chosen.has(n.path) && !n.through // otherwise it goes back with the directory it is in
	}
	maps.DeleteFunc(paths, func(_ string, has bool) bool { return !has })
	return paths
}

// Growth returns by how much the changes make the overlay larger than the lower tree is
// at their places: what a Revert of all would free. What cannot be found out does not
// count.
func (o *Overlay) Growth(ctx context.Context) (vfs.Effect, error) {
	if err := o.begin(ctx); err != nil {
		return vfs.Effect{}, err
	}
	defer o.end()
	s := o.snapshot()
	at := s.touched(&selection{all: true})
	return grown(sizes(ctx, at, o.lowerAt), sizes(ctx, at, o.open)), ctx.Err()
}

// sizes returns how much is stored at each of paths, which open opens. It leaves out what
// it cannot find out.
func sizes(ctx context.Context, paths map[string]bool, open func(context.Context, string) (vfs.Node, error)) map[string]vfs.Effect {
	all := make(map[string]vfs.Effect, len(paths))
	for path := range paths {
		var info vfs.Info
		err := steady(ctx, func() error {
			n, err := open(ctx, path)
			if err == nil {
				info, err = n.Stat(ctx)
				n.Close()
			}
			return err
		})
		switch {
		case err == nil && info.Kind == vfs.FileKind:
			all[path] = vfs.Effect{Bytes: info.Size, Nodes: 1}
		case err == nil:
			all[path] = vfs.Effect{Nodes: 1}
		case missing(err) || replaced(err):
			all[path] = vfs.Effect{}
		}
	}
	return all
}

// grown returns the difference between two results of sizes.
func grown(before, after map[string]vfs.Effect) (e vfs.Effect) {
	for path, was := range before {
		if is, ok := after[path]; ok {
			e.Bytes += is.Bytes - was.Bytes
			e.Nodes += is.Nodes - was.Nodes
		}
	}
	return e
}

// reverts plans the revert of chosen.
func (o *Overlay) reverts(ctx context.Context, s *snapshot, chosen *selection) ([]edit, error) {
	var edits []edit
	if chosen.all {
		edits = append(edits, touches("", 0))
	}
	forgotten, kept := map[string]bool{}, map[string]snapshotNode{}
	dropped, now := "", nowMs()
	lets := func(n snapshotNode) {
		edits = append(edits, edit{Do: drop, Path: raw(n.path)})
		if parent, _ := split(n.path); !chosen.has(parent) {
			edits = append(edits, touches(parent, now))
		}
	}
	for _, n := range s.nodes {
		switch {
		case !chosen.has(n.path):
			if !n.through {
				kept[n.implied] = n
			}
			continue
		case dropped != "" && within(n.path, dropped):
		case n.through:
			edits = append(edits, touches(n.path, 0))
		default:
			dropped = n.path
			lets(n)
		}
		forgotten[n.implied] = true
	}
	back, err := o.brings(ctx, s, chosen)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		if !chosen.has(path) {
			continue
		}
		n, ok := kept[path]
		switch {
		case !ok && s.goesWith(path, kept): // what removed it stays, in a directory that moved
		case !ok:
			forgotten[path] = true
		case s.bases[path].moved && n.kind == gone: // it is at its own place in a directory that moved
			forgotten[path] = true
			lets(n)
		case s.bases[path].moved:
			return nil, vfs.At(n.path, vfs.Errorf(vfs.Invalid, "it replaced something that would come back; choose this path too"))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(forgotten)) {
		edits = append(edits, edit{Do: forget, Path: raw(path)})
	}
	return append(edits, back...), nil
}

// goesWith reports whether the lower path lies in one that is kept as it is: a node
// that stays took its place.
func (s *snapshot) goesWith(path string, kept map[string]snapshotNode) bool {
	for up, _ := split(path); up != ""; up, _ = split(up) {
		if _, ok := kept[up]; ok {
			return !s.bases[up].moved
		}
	}
	return false
}

// brings returns the edits that bring back chosen paths in directories that do not read
// through. These were removed, and perhaps made again.
func (o *Overlay) brings(ctx context.Context, s *snapshot, chosen *selection) (edits []edit, err error) {
	for _, path := range slices.Sorted(maps.Keys(chosen.deep)) {
		b, known := s.bases[path]
		parent, _ := split(path)
		if _, shown := s.shows[parent]; !known || b.moved || b.state.Absent() || shown {
			continue
		}
		if _, ok := s.where(parent); ok || chosen.has(parent) {
			continue
		}
		is, err := o.visible(ctx, parent)
		if err != nil {
			return nil, err
		}
		if is.Kind != vfs.DirKind {
			return nil, vfs.At(parent, vfs.Errorf(vfs.Invalid, "the former content of this directory cannot come back without it; choose this path too"))
		}
		edits = append(edits, restore(path, b.state.Kind)...)
	}
	return edits, nil
}

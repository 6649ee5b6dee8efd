package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// Revert drops the changes at and below paths; nil means all. A node that was open
// there is stale, or reads the lower tree again. A move is reverted at both of its
// places or not at all, and so is a removed directory with what it held: otherwise
// Revert answers invalid and says which path to add. The revert is one step, and
// durable. Its growth counts in ctx's committers.
func (o *Overlay) Revert(ctx context.Context, paths []string) error {
	return o.unchanged(ctx, func(s *snapshot) error {
		chosen, err := s.choose(paths, false)
		if err != nil {
			return err
		}
		edits, err := s.reverts(ctx, chosen)
		if err != nil {
			return err
		}
		at := s.touched(chosen)
		inner := inside(context.WithoutCancel(ctx))
		before := sizes(inner, at, s.shown.Open)
		return vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
			if err := o.make(inner, edits, true, nil); err != nil {
				return vfs.Effect{}, err
			}
			return grown(before, sizes(inner, at, s.shown.Open)), nil
		})
	})
}

// touched returns the paths at which a revert of chosen may change a node, in tree order.
func (s *snapshot) touched(chosen *selection) []string {
	var paths []string
	for path := range s.bases {
		if _, noted := s.at[path]; !noted && chosen.has(path) {
			paths = append(paths, path)
		}
	}
	for _, n := range s.nodes {
		if !n.through && chosen.has(n.path) { // otherwise it goes back with the directory it is in
			paths = append(paths, n.path)
		}
	}
	slices.SortFunc(paths, diff.ComparePaths)
	return paths
}

// Growth returns by how much the changes make the overlay larger than the lower tree is
// at their places: what a Revert of all would free. What cannot be found out does not
// count.
func (o *Overlay) Growth(ctx context.Context) (vfs.Effect, error) {
	var e vfs.Effect
	err := o.unchanged(ctx, func(s *snapshot) error {
		at := s.touched(&selection{all: true})
		e = grown(sizes(ctx, at, s.lower.Open), sizes(ctx, at, s.shown.Open))
		return ctx.Err()
	})
	return e, err
}

// sizes returns how much is stored at each of paths, which open opens. It leaves out what
// it cannot find out.
func sizes(ctx context.Context, paths []string, open func(context.Context, string) (vfs.Node, error)) map[string]vfs.Effect {
	all := make(map[string]vfs.Effect, len(paths))
	for _, path := range paths {
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
func (s *snapshot) reverts(ctx context.Context, chosen *selection) ([]edit, error) {
	var edits []edit
	if chosen.all {
		edits = append(edits, touches("", 0))
	}
	forgotten, kept := map[string]bool{}, map[string]snapshotNode{}
	dropped, now := "", nowMs()
	lets := func(n snapshotNode) {
		edits = append(edits, edit{Do: drop, Path: raw(n.path)})
		if parent, _ := diff.Split(n.path); !chosen.has(parent) {
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
		case dropped != "" && diff.Within(n.path, dropped):
		case n.through:
			edits = append(edits, touches(n.path, 0))
		default:
			dropped = n.path
			lets(n)
		}
		forgotten[n.implied] = true
	}
	back, err := s.brings(ctx, chosen)
	if err != nil {
		return nil, err
	}
	bases := slices.Sorted(maps.Keys(s.bases))
	in, goes := "", false // the directory looked at last, and what goesWith said of it
	for _, path := range bases {
		if !chosen.has(path) {
			continue
		}
		if dir, _ := diff.Split(path); dir != in {
			in, goes = dir, s.goesWith(dir, kept)
		}
		n, ok := kept[path]
		switch {
		case !ok && goes: // what removed it stays, in a directory that moved
		case !ok:
			forgotten[path] = true
		case s.bases[path].moved && n.kind == gone: // it is at its own place in a directory that moved
			forgotten[path] = true
			lets(n)
		case s.bases[path].moved:
			return nil, vfs.At(n.path, vfs.Errorf(vfs.Invalid, "it replaced something that would come back; choose this path too"))
		}
	}
	for _, path := range bases {
		if forgotten[path] {
			edits = append(edits, edit{Do: forget, Path: raw(path)})
		}
	}
	return append(edits, back...), nil
}

// goesWith reports whether the lower directory dir is, or lies in, one that is kept as it
// is: a node that stays took its place.
func (s *snapshot) goesWith(dir string, kept map[string]snapshotNode) bool {
	for up := dir; up != ""; up, _ = diff.Split(up) {
		if _, ok := kept[up]; ok {
			return !s.bases[up].moved
		}
	}
	return false
}

// brings returns the edits that bring back chosen paths in directories that do not read
// through. These were removed, and perhaps made again.
func (s *snapshot) brings(ctx context.Context, chosen *selection) (edits []edit, err error) {
	for _, path := range chosen.deep {
		b, known := s.bases[path]
		parent, _ := diff.Split(path)
		if _, shown := s.shows[parent]; !known || b.moved || b.state.Absent() || shown {
			continue
		}
		if _, ok := s.where(parent); ok || chosen.has(parent) {
			continue
		}
		is, err := s.visible(ctx, parent)
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

package client

import (
	"context"
	"slices"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// TreeOptions bound a [Dir.Tree]. The zero value is what the host does by default.
type TreeOptions struct {
	Depth    int     // most levels; 0: all
	Entries  int     // most entries; 0: 1000, at most 10,000
	MaxBytes int     // most bytes of names; 0: 1 MiB
	Sizes    bool    // look at each file for its size
	Leave    []Leave // what to leave out
}

// Branch is an entry of a tree.
type Branch struct {
	Entry        // Name is its last name; "" for the directory itself
	Depth   int  // 0 for the directory itself, 1 for its entries
	More    int  // how many of its entries are not shown
	AtLeast bool // there may be more than that
	Left    int  // how many of its entries were left out because they are ignored or hidden
}

// Tree returns the shape of the directory at path, or of d for "", in tree order. The first
// branch is the directory itself. Where there is more than o has room for, it is cut level
// by level, and says how much is missing. An [*Unlisted] error comes with the branches: some
// directories could not be listed.
func (d *Dir) Tree(ctx context.Context, path string, o TreeOptions) (all []Branch, err error) {
	if err := d.at(path); err != nil {
		return nil, err
	}
	var missed Unlisted
	err = wire.Do(ctx, d.cap, schema.Dir_tree, func(p schema.Dir_tree_Params, _ *vat.Caps) error {
		p.SetDepth(uint32(max(0, o.Depth)))
		p.SetLimit(uint32(max(0, o.Entries)))
		p.SetMaxBytes(uint32(max(0, o.MaxBytes)))
		p.SetWithStat(o.Sizes)
		p.SetIgnoreFiles(slices.Contains(o.Leave, LeaveIgnored))
		p.SetNoHidden(slices.Contains(o.Leave, LeaveHidden))
		return p.SetPath(path)
	}, func(r schema.Dir_tree_Results, _ *vat.Caps) error {
		l, err := r.Branches()
		if err != nil {
			return err
		}
		for i := range l.Len() {
			b, err := branchOf(l.At(i), all)
			if err != nil {
				return err
			}
			all = append(all, b)
		}
		errs, err := missedIn(r.Missed())
		missed.add(errs)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, errNames
	case len(missed.Errors) > 0:
		return all, &missed
	}
	return all, nil
}

// branchOf reads a branch that follows others. The first has no name, and each other is at
// most one level below the one before.
func branchOf(w schema.Branch, before []Branch) (Branch, error) {
	b := Branch{Depth: int(w.Depth()), More: int(w.More()), AtLeast: w.AtLeast(), Left: int(w.Left())}
	st, err := w.Stat()
	if err != nil {
		return b, err
	}
	if b.Entry, err = entryOf(st); err != nil {
		return b, err
	}
	n := len(before)
	switch {
	case n > wire.MaxPage:
		return b, vfs.Errorf(vfs.Corrupt, "the host answered a tree of more than %d entries", wire.MaxPage)
	case n == 0 && (b.Depth != 0 || b.Name != ""), n > 0 && (b.Depth < 1 || b.Depth > before[n-1].Depth+1 || vfs.CheckName(b.Name) != nil):
		return b, errNames
	}
	return b, nil
}

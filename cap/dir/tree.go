package dir

import (
	"context"
	"strings"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/ignore"
	"capd/vfs/membrane"
	"capd/vfs/search"
)

func (s *server) tree(c vat.Call[schema.Dir_tree_Params, schema.Dir_tree_Results]) error {
	p := c.Params()
	path, err := wire.Path(p.PathBytes())
	if err != nil {
		return err
	}
	if p.WithStat() {
		if err := membrane.May(s.dir, membrane.To(membrane.OpStat)); err != nil {
			return vfs.At(path, err)
		}
	}
	var f findings
	miss := func(path string, why error) {
		if len(f.missed) < maxMissed && f.bytes <= maxPageBytes {
			f.miss(path, why)
		}
	}
	o := search.Outline{
		Depth: bound(p.Depth(), vfs.MaxDepth), Entries: wire.PageSize(p.Limit()), Bytes: bound(p.MaxBytes(), maxPageBytes), Work: maxWork,
		IgnoreFiles: p.IgnoreFiles(), NoHidden: p.NoHidden(), Missed: miss,
		Yield: func() error { return meter.Yield(c.Context()) },
	}
	d := s.dir
	if path != "" {
		if o.IgnoreFiles {
			o.Above = ignoredAt(c.Context(), s.dir, path, miss)
		}
		if d, err = vfs.WalkDir(c.Context(), s.dir, path); err != nil {
			return wire.Looked(path, err)
		}
		defer d.Close()
	}
	all, err := o.Of(c.Context(), d)
	if err != nil {
		return vfs.At(path, err)
	}
	r := c.Results()
	if err := setMissed(f.missed, r.NewMissed); err != nil {
		return err
	}
	return setBranches(c.Context(), r, d, all, p.WithStat())
}

// bound returns n, or most if that is less or n is 0.
func bound(n uint32, most int) int {
	if n == 0 {
		return most
	}
	return int(min(n, uint32(most)))
}

// ignoredAt returns what the ignore files from d on say in the directory at path, without its
// own. It is nothing where a link leads there.
func ignoredAt(ctx context.Context, d vfs.Dir, path string, miss func(string, error)) *ignore.Dir {
	state, at := &ignore.Dir{}, ""
	here := d
	defer func() {
		if here != d {
			here.Close()
		}
	}()
	for name := range strings.SplitSeq(path, "/") {
		state, _ = state.Load(ctx, here, nil, func(file string, err error) { miss(vfs.Join(at, file), err) })
		next, err := vfs.LookupAs[vfs.Dir](ctx, here, name, vfs.NotDir)
		if err != nil {
			return &ignore.Dir{}
		}
		if here != d {
			here.Close()
		}
		here, at, state = next, vfs.Join(at, name), state.Enter(name)
	}
	return state
}

// setBranches fills in a tree of d.
func setBranches(ctx context.Context, r schema.Dir_tree_Results, d vfs.Dir, all []search.Branch, withStat bool) error {
	list, err := r.NewBranches(int32(len(all)))
	if err != nil {
		return err
	}
	cursor := diff.NewCursor(d)
	defer cursor.Close()
	for i, b := range all {
		w := list.At(i)
		w.SetDepth(uint16(b.Depth))
		w.SetMore(uint32(b.More))
		w.SetAtLeast(b.AtLeast)
		w.SetLeft(uint32(b.Left))
		st, err := w.NewStat()
		if err != nil {
			return err
		}
		wire.SetKind(st, b.Kind)
		if err := wire.SetName(st, wire.Base(b.Name)); err != nil {
			return err
		}
		if !withStat || b.Kind != vfs.FileKind {
			continue
		}
		if err := setSize(ctx, st, cursor, b.Name); err != nil {
			return err
		}
	}
	return nil
}

// setSize fills in what is known of the file at path. One that has disappeared has no size.
func setSize(ctx context.Context, st schema.Stat, cursor *diff.Cursor, path string) error {
	n, err := cursor.Open(ctx, path)
	if err == nil {
		var info vfs.Info
		info, err = n.Stat(ctx)
		n.Close()
		if err == nil {
			wire.SetInfo(st, info)
			st.SetLooked(true)
			return nil
		}
	}
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired, vfs.Limit:
		return vfs.At("", err)
	}
	return ctx.Err()
}

package membrane

import (
	"context"

	"capd/vfs"
)

// reads returns the rights that c needs beyond the right to write. A condition on a
// version reveals something about the content, so it needs the right to read.
func reads(c vfs.If) mode {
	if !c.Is.IsZero() {
		return noRead
	}
	return 0
}

func (v *dirView) Remove(ctx context.Context, name string, c vfs.If) error {
	t, err := v.target(ctx, name, vfs.CheckName, OpRemove.need()|reads(c), true)
	if err == nil {
		err = v.single(ctx, name, t)
	}
	if err == nil {
		c, err = t.compares(ctx, c, v.version(name))
	}
	if err != nil {
		return err
	}
	op := Op{Kind: OpRemove, Path: t.path}
	ctx, is, err := v.removing(ctx, op, t, name, c)
	if err != nil {
		return err
	}
	do := func(ctx context.Context) error {
		return v.holding(ctx, name, t, v.dir.Remove(ctx, name, is))
	}
	if reads(c) != 0 {
		do = whileBound(do, t)
	}
	return v.change(ctx, op, nil, []target{t}, do)
}

// holding returns err, with which the store answered the removal of what is called name, at t.
// If that is a directory that is not empty, but that shows nothing, it is denied.
func (v *dirView) holding(ctx context.Context, name string, t target, err error) error {
	if vfs.CodeOf(err) != vfs.NotEmpty {
		return err
	}
	empty := v.guards.seemsEmpty(ctx, v.dir, name, t)
	if late := t.refused(ctx); late != nil {
		return late
	}
	if empty {
		return &vfs.Error{Code: vfs.Denied, Msg: "it cannot be removed: policy decides about what it may hold", Cause: &Disclosure{t.path}}
	}
	return err
}

// seemsEmpty reports whether the directory called name in dir, at t, holds nothing
// visible. It stops at the first visible entry, and when t is revoked.
func (s *guardSet) seemsEmpty(ctx context.Context, dir vfs.Dir, name string, t target) bool {
	if s.hiding == 0 && t.rules.judge == nil {
		return false
	}
	n, err := dir.Lookup(ctx, name)
	if err != nil {
		return false
	}
	defer n.Close()
	d, ok := n.(vfs.Dir)
	if !ok {
		return false
	}
	seen := false
	err = whileBound(func(ctx context.Context) error {
		seen, err = vfs.Any(ctx, d, func(e vfs.Entry) bool { return !s.skips(t.rules, e.Name) })
		return err
	}, t)(ctx)
	return err == nil && !seen
}

package membrane

import (
	"context"

	"capd/vfs"
)

// SetAttributes implements [vfs.Attributer].
func (v *fileView) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	t := target{view: &v.view, path: v.path, rules: v.standing(), need: OpAttributes.need() | reads(c)}
	if err := t.refused(ctx); err != nil {
		return err
	}
	if err := v.single(ctx, t.need); err != nil {
		return err
	}
	if err := a.CheckFor(v.file); err != nil {
		return err
	}
	c, err := t.compares(ctx, c, v.Version)
	if err != nil {
		return err
	}
	op := Op{Kind: OpAttributes, Path: v.path}
	ctx, is, err := v.replacing(ctx, op, t, c, vfs.Bound{Attributes: &a})
	if err != nil {
		return err
	}
	set := func(ctx context.Context) error { return vfs.SetAttributes(ctx, v.file, a, is) }
	if reads(is) != 0 {
		set = whileBound(set, t)
	}
	return v.change(ctx, op, nil, []target{t}, set)
}

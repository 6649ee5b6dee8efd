package membrane

import (
	"context"

	"capd/meter"
	"capd/vfs"
)

// Everything below is for the host, which asks about views that guests pass in.

// Dup implements [vfs.Duper].
func (v *dirView) Dup() (vfs.Node, error) {
	if err := v.check(0); err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask)
}

// Dup implements [vfs.Duper].
func (v *fileView) Dup() (vfs.Node, error) {
	if err := v.check(0); err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask)
}

// Identity implements [vfs.Identifier]. It needs no right, since only a host asks.
func (v *dirView) Identity(ctx context.Context) (text string, err error) {
	if err := v.check(0); err != nil {
		return "", err
	}
	err = v.guards.within(ctx, func(ctx context.Context) (err error) {
		text, err = vfs.Identity(ctx, v.dir)
		return err
	})
	return text, err
}

// Place says where a view stands inside its membrane, and what bounds it. A guest never
// sees one.
type Place struct {
	Path   string // from the guarded root
	Rights Rights // that attenuation has left; gates may refuse more
}

// PlaceOf reports n's place, if n is behind a membrane.
func PlaceOf(n vfs.Node) (Place, bool) {
	switch v := n.(type) {
	case *dirView:
		return v.place(), true
	case *stagedView:
		return v.place(), true
	case *fileView:
		return v.place(), true
	}
	return Place{}, false
}

func (v *view) place() Place { return Place{Path: v.path, Rights: v.mask.rights()} }

// MeterOf returns the meter that counts what is done through n (see [Revocable]), nil
// for none.
func MeterOf(n vfs.Node) *meter.Meter {
	switch v := n.(type) {
	case *dirView:
		return v.base.meter
	case *fileView:
		return v.base.meter
	}
	return nil
}

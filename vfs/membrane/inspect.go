package membrane

import (
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

// Place says at which path of its membrane a view is, and whether it is read-only. It is
// for the host, never a guest.
type Place struct {
	Path     string // from the guarded root
	ReadOnly bool   // by attenuation; gates may refuse more
}

// PlaceOf reports n's place, if n is behind a membrane.
func PlaceOf(n vfs.Node) (Place, bool) {
	v, ok := n.(viewed)
	if !ok {
		return Place{}, false
	}
	at := v.self()
	return Place{Path: at.path, ReadOnly: at.mask&noWrite != 0}, true
}

// MeterOf returns the meter that counts what is done through n (see [Revocable]), nil
// for none.
func MeterOf(n vfs.Node) *meter.Meter {
	if v, ok := n.(viewed); ok {
		return v.self().base.meter
	}
	return nil
}

// viewed is a view of any kind of node.
type viewed interface{ self() *view }

func (v *view) self() *view { return v }

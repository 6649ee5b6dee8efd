package console_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// Requests that our own client never sends are refused with a code.
func TestMalformed(t *testing.T) {
	h := example()
	fs := raw(t, h)
	defer fs.Release()
	mount := func(fill func(schema.Attenuation) error) error {
		return vat.Do(t.Context(), fs, schema.VirtualFs_mount, func(p schema.VirtualFs_mount_Params, _ *vat.Caps) error {
			a, err := p.NewAttenuation()
			if err != nil {
				return err
			}
			return fill(a)
		}, nil)
	}
	many := slices.Repeat([]string{"x"}, 300_000) // of few bytes, and many
	for name, c := range map[string]struct {
		err  error
		want vfs.Code
	}{
		"a bound that is no number of bytes": {mount(func(a schema.Attenuation) error { a.SetBytes(math.MaxUint64); return nil }), vfs.Invalid},
		"a bound that is no number of nodes": {mount(func(a schema.Attenuation) error { a.SetNodes(1 << 63); return nil }), vfs.Invalid},
		"patterns of an unknown kind": {mount(func(a schema.Attenuation) error {
			d, err := a.NewDeny()
			if err == nil {
				capnp.Struct(d).SetUint16(0, 7)
			}
			return err
		}), vfs.Invalid},
		"too many patterns": {mount(func(a schema.Attenuation) error {
			d, err := a.NewDeny()
			if err != nil {
				return err
			}
			return wire.SetTexts(many, d.NewList)
		}), vfs.TooLarge},
		"too many paths": {vat.Do(t.Context(), fs, schema.VirtualFs_revert, func(p schema.VirtualFs_revert_Params, _ *vat.Caps) error {
			return wire.SetTexts(many, p.NewPaths)
		}, nil), vfs.TooLarge},
		"an empty path": {vat.Do(t.Context(), fs, schema.VirtualFs_revert, func(p schema.VirtualFs_revert_Params, _ *vat.Caps) error {
			return wire.SetTexts([]string{"a", ""}, p.NewPaths)
		}, nil), vfs.Invalid},
		"a bound of a copy": {vat.Do(t.Context(), fs, schema.VirtualFs_materialize, func(p schema.VirtualFs_materialize_Params, _ *vat.Caps) error {
			b, err := p.NewBounds()
			b.SetEntries(1 << 63)
			return err
		}, nil), vfs.Invalid},
		"a cursor of mounts that is none": {vat.Do(t.Context(), fs, schema.VirtualFs_mounts, func(p schema.VirtualFs_mounts_Params, _ *vat.Caps) error {
			return p.SetAfter([]byte("x"))
		}, nil), vfs.Invalid},
	} {
		is(t, name, wire.Decode(c.err), c.want)
	}
	for name, wrong := range mangle {
		of := func(s capnp.Struct, i uint16) error {
			p, err := wrong(s.Segment())
			if err != nil {
				return err
			}
			return s.SetPtr(i, p)
		}
		lists := map[string]error{
			"revert's paths": refused(t, fs, schema.VirtualFs_revert, func(p capnp.Struct) error { return of(p, 1) }),
			"apply's paths":  refused(t, fs, schema.VirtualFs_apply, func(p capnp.Struct) error { return of(p, 1) }),
			"apply's review": vat.Do(t.Context(), fs, schema.VirtualFs_apply, func(p schema.VirtualFs_apply_Params, _ *vat.Caps) error { return p.SetReview([]byte("short")) }, nil),
			"patterns": mount(func(a schema.Attenuation) error {
				d, err := a.NewDeny()
				if err != nil {
					return err
				}
				capnp.Struct(d).SetUint16(0, uint16(schema.Patterns_Which_list))
				return of(capnp.Struct(d), 0)
			}),
		}
		for what, err := range lists {
			is(t, what+" that are "+name, wire.Decode(err), vfs.Invalid)
		}
		if name == "a struct" {
			continue
		}
		structs := map[string]error{
			"attenuation": refused(t, fs, schema.VirtualFs_mount, func(p capnp.Struct) error { return of(p, 2) }),
			"deny":        mount(func(a schema.Attenuation) error { return of(capnp.Struct(a), 0) }),
			"ask":         mount(func(a schema.Attenuation) error { return of(capnp.Struct(a), 1) }),
			"commit":      refused(t, fs, schema.VirtualFs_commit, func(p capnp.Struct) error { return of(p, 1) }),
			"bounds":      refused(t, fs, schema.VirtualFs_materialize, func(p capnp.Struct) error { return of(p, 1) }),
		}
		for what, err := range structs {
			is(t, what+" that is "+name, wire.Decode(err), vfs.Invalid)
		}
	}
	if h.last() != "" {
		t.Errorf("the host was asked %.200s", h.last())
	}
	// Nothing is set: the defaults apply.
	ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_mount, nil, nil))
	h.asked(t, "mount", "", "", operator.Attenuation{})
	ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_apply, nil, nil))
	h.asked(t, "apply", "", operator.ApplyOptions{}, false)
	ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_commit, nil, nil))
	h.asked(t, "commit", "", operator.Commit{})
}

// mangle makes something that is not a list of texts, or not a struct.
var mangle = map[string]func(*capnp.Segment) (capnp.Ptr, error){
	"a struct": func(seg *capnp.Segment) (capnp.Ptr, error) {
		s, err := capnp.NewStruct(seg, capnp.ObjectSize{DataSize: 8, PointerCount: 1})
		return s.ToPtr(), err
	},
	"bytes": func(seg *capnp.Segment) (capnp.Ptr, error) {
		d, err := capnp.NewData(seg, []byte("12345678"))
		return d.ToPtr(), err
	},
	"a list of lists": func(seg *capnp.Segment) (capnp.Ptr, error) {
		l, err := capnp.NewPointerList(seg, 1)
		if err != nil {
			return capnp.Ptr{}, err
		}
		n, err := capnp.NewInt64List(seg, 1)
		return l.ToPtr(), errors.Join(err, l.Set(0, n.ToPtr()))
	},
	"a capability": func(seg *capnp.Segment) (capnp.Ptr, error) {
		return capnp.NewInterface(seg, 4000).ToPtr(), nil
	},
}

// refused calls m with parameters that fill makes.
func refused[P, R ~capnp.StructKind](t *testing.T, c *vat.Cap, m vat.Method[P, R], fill func(capnp.Struct) error) error {
	t.Helper()
	return vat.Do(t.Context(), c, m, func(p P, _ *vat.Caps) error { return fill(capnp.Struct(p)) }, nil)
}

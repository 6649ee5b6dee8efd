package cap_test

import (
	"testing"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// mangle sets every pointer of a method's parameters to something wrong.
var mangle = map[string]func(s capnp.Struct, i uint16) error{
	"null": func(capnp.Struct, uint16) error { return nil },
	"a struct": func(s capnp.Struct, i uint16) error {
		x, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{DataSize: 8, PointerCount: 3})
		if err != nil {
			return err
		}
		x.SetUint16(0, 99)
		return s.SetPtr(i, x.ToPtr())
	},
	"a list of words": func(s capnp.Struct, i uint16) error {
		x, err := capnp.NewUInt64List(s.Segment(), 4)
		if err != nil {
			return err
		}
		return s.SetPtr(i, x.ToPtr())
	},
	"bytes without an end": func(s capnp.Struct, i uint16) error {
		x, err := capnp.NewData(s.Segment(), []byte{0xff, 0xfe, '/', 0})
		if err != nil {
			return err
		}
		return s.SetPtr(i, x.ToPtr())
	},
	"no bytes": func(s capnp.Struct, i uint16) error {
		x, err := capnp.NewData(s.Segment(), []byte{})
		if err != nil {
			return err
		}
		return s.SetPtr(i, x.ToPtr())
	},
	"an endless list": func(s capnp.Struct, i uint16) error { return endless(s, i) },
	"a struct of endless lists": func(s capnp.Struct, i uint16) error {
		x, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{DataSize: 24, PointerCount: 6})
		for at := range uint16(6) {
			if err == nil {
				err = endless(x, at)
			}
		}
		if err != nil {
			return err
		}
		return s.SetPtr(i, x.ToPtr())
	},
	"a list of structs of endless lists": func(s capnp.Struct, i uint16) error {
		l, err := capnp.NewCompositeList(s.Segment(), capnp.ObjectSize{DataSize: 24, PointerCount: 6}, 2)
		for at := range 2 * 6 {
			if err == nil {
				err = endless(l.Struct(at/6), uint16(at%6))
			}
		}
		if err != nil {
			return err
		}
		return s.SetPtr(i, l.ToPtr())
	},
	"a capability that is not there": func(s capnp.Struct, i uint16) error {
		return s.SetPtr(i, capnp.NewInterface(s.Segment(), 4000).ToPtr())
	},
}

// endless sets a pointer of s to a list that is as long as one can be: its elements take no room.
func endless(s capnp.Struct, i uint16) error {
	l, err := capnp.NewCompositeList(s.Segment(), capnp.ObjectSize{}, 1<<29-1)
	if err != nil {
		return err
	}
	return s.SetPtr(i, l.ToPtr())
}

// malformed calls m with each of them. Each answer must have a code other than internal.
func malformed[P, R ~capnp.StructKind](t *testing.T, c func() *vat.Cap, m vat.Method[P, R]) {
	t.Helper()
	for how, f := range mangle {
		err := call(t, c(), m, func(p P, _ *vat.Caps) error {
			s := capnp.Struct(p)
			for i := range m.Params.PointerCount {
				if err := f(s, i); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		if code := vfs.CodeOf(err); code == vfs.Internal || code == vfs.Stale {
			t.Errorf("%s with %s: %v", m.Name, how, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	s, _, d := guest(t, vfstest.Tree{"f": {Data: "x"}})
	session, f := s.session(t), d.OpenFile("f")
	se, di, fi := func() *vat.Cap { return session }, func() *vat.Cap { return d.Cap() }, func() *vat.Cap { return f.Cap() }
	wr := func() *vat.Cap { return stage(t, d, "staged", vfs.If{}) }
	malformed(t, se, schema.Session_restore)
	malformed(t, se, schema.Session_share)
	malformed(t, se, schema.Session_help)
	malformed(t, di, schema.Dir_list)
	malformed(t, di, schema.Dir_get)
	malformed(t, di, schema.Dir_walk)
	malformed(t, di, schema.Dir_openDir)
	malformed(t, di, schema.Dir_openFile)
	malformed(t, di, schema.Dir_put)
	malformed(t, di, schema.Dir_stage)
	malformed(t, di, schema.Dir_stat)
	malformed(t, di, schema.Dir_glob)
	malformed(t, di, schema.Dir_tree)
	malformed(t, di, schema.Dir_changedSince)
	malformed(t, di, schema.Dir_grep)
	malformed(t, di, schema.Dir_readMany)
	malformed(t, di, schema.Dir_archive)
	malformed(t, di, schema.Dir_patch)
	malformed(t, di, schema.Dir_change)
	malformed(t, di, schema.Dir_changes)
	malformed(t, di, schema.Dir_history)
	malformed(t, di, schema.Dir_undo)
	malformed(t, di, schema.Dir_readPast)
	malformed(t, di, schema.Dir_turn)
	malformed(t, di, schema.Dir_createDir)
	malformed(t, di, schema.Dir_createFile)
	malformed(t, di, schema.Dir_remove)
	malformed(t, di, schema.Dir_move)
	malformed(t, di, schema.Dir_copy)
	malformed(t, di, schema.Dir_extract)
	malformed(t, di, schema.Dir_temp)
	malformed(t, di, schema.Dir_subDir)
	malformed(t, di, schema.Dir_help)
	malformed(t, fi, schema.File_read)
	malformed(t, fi, schema.File_stream)
	malformed(t, fi, schema.File_writeText)
	malformed(t, fi, schema.File_writeBytes)
	malformed(t, fi, schema.File_stage)
	malformed(t, fi, schema.File_write)
	malformed(t, fi, schema.File_append)
	malformed(t, fi, schema.File_truncate)
	malformed(t, fi, schema.File_edit)
	malformed(t, fi, schema.File_readLines)
	malformed(t, fi, schema.File_setAttributes)
	malformed(t, fi, schema.File_stat)
	malformed(t, fi, schema.File_help)
	malformed(t, wr, schema.Writer_write)
	malformed(t, wr, schema.Writer_commit)
	malformed(t, wr, schema.Writer_help)
	ok(t, call(t, d.Cap(), schema.Dir_stat, nil, nil)) // the connection lives
}

// A malformed condition is not treated as no condition.
func TestMangledCondition(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "x"}, "g": {Data: "y"}})
	mangle := func(s capnp.Struct, err error, at uint16) error {
		if err != nil {
			return err
		}
		return s.SetData(at, []byte("not a struct"))
	}
	for name, err := range map[string]error{
		"put": call(t, d.Cap(), schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error {
			return mangle(capnp.Struct(p), p.SetPath("f"), 2)
		}, nil),
		"remove": call(t, d.Cap(), schema.Dir_remove, func(p schema.Dir_remove_Params, _ *vat.Caps) error {
			return mangle(capnp.Struct(p), p.SetPath("f"), 1)
		}, nil),
		"truncate": call(t, d.OpenFile("f").Cap(), schema.File_truncate, func(p schema.File_truncate_Params, _ *vat.Caps) error {
			return mangle(capnp.Struct(p), nil, 0)
		}, nil),
	} {
		is(t, name+" with a condition that is bytes", err, vfs.Invalid)
	}
	if got, _, err := d.OpenFile("f").ReadText(t.Context()); err != nil || got != "x" {
		t.Errorf("afterwards the file holds %q, %v", got, err)
	}
}

// Malformed patterns of paths are not treated as none, which would search everything.
func TestMangledGlobs(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "x"}})
	for how, f := range mangle {
		if how == "null" || how == "no bytes" { // these are none
			continue
		}
		for at := range uint16(2) {
			err := call(t, d.Cap(), schema.Dir_grep, func(p schema.Dir_grep_Params, _ *vat.Caps) error {
				w, err := p.NewWhat()
				if err == nil {
					err = w.SetPattern("x")
				}
				if err != nil {
					return err
				}
				return f(capnp.Struct(w), 1+at)
			}, nil)
			is(t, "grep with "+how, err, vfs.Invalid)
		}
	}
}

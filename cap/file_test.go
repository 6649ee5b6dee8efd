package cap_test

import (
	"strings"
	"testing"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// Calls on one File start in the order in which they were made. A change has ended before
// the next call begins, although the caller does not wait in between.
func TestFileOrder(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {}})
	f := d.OpenFile("f").Cap()
	const n = 200
	var answers []*vat.Answer[schema.File_append_Results]
	for range n {
		a := vat.Send(t.Context(), f, schema.File_append, func(p schema.File_append_Params, _ *vat.Caps) error {
			return p.SetData([]byte("line\n"))
		})
		answers = append(answers, a)
	}
	last := vat.Send(t.Context(), f, schema.File_readText, nil)
	defer last.Release()
	r, _, err := last.Await(t.Context())
	ok(t, err)
	text, err := r.Text()
	if ok(t, err); text != strings.Repeat("line\n", n) {
		t.Errorf("a read after %d appends sees %d bytes", n, len(text))
	}
	for i, a := range answers {
		r, _, err := a.Await(t.Context())
		if ok(t, err); r.Offset() != uint64(5*i) {
			t.Errorf("append %d is at %d", i, r.Offset())
		}
		a.Release()
	}
	w := vat.Send(t.Context(), f, schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error { return p.SetText("0123456789") })
	tr := vat.Send(t.Context(), f, schema.File_truncate, func(p schema.File_truncate_Params, _ *vat.Caps) error { p.SetSizeBytes(4); return nil })
	wr := vat.Send(t.Context(), f, schema.File_write, func(p schema.File_write_Params, _ *vat.Caps) error {
		p.SetOffset(6)
		return p.SetData([]byte("x"))
	})
	defer w.Release()
	defer tr.Release()
	defer wr.Release()
	_, _, err = wr.Await(t.Context())
	ok(t, err)
	reads(t, d, "f", "0123\x00\x00x")
}

func TestFileMethods(t *testing.T) {
	ctx := t.Context()
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "0123456789"}, "x": {Data: "run", Exec: true}, "d": {Dir: true}})
	f := d.OpenFile("f")
	text, v, err := f.ReadText(ctx)
	if ok(t, err); text != "0123456789" || v != vfs.Version(v) || v.IsZero() {
		t.Errorf("readText: %q, %v", text, v)
	}
	have, err := f.Version(ctx)
	if ok(t, err); have != v {
		t.Error("stat and readText answer different versions")
	}
	ok(t, call(t, d.OpenFile("x").Cap(), schema.File_stat, nil, func(r schema.File_stat_Results, _ *vat.Caps) error {
		st, err := r.Stat()
		ok(t, err)
		name, err := st.Name()
		if name != "x" || st.SizeBytes() != 3 || !st.Executable() || st.Type() != schema.Type_file || st.HasVersion() || st.ModifiedMs() == 0 {
			t.Errorf("stat of x: %v", st)
		}
		return err
	}))
	old := vfs.If{Is: vfs.Version{1}}
	for what, err := range map[string]error{
		"writeText":  func() error { _, err := f.WriteText(ctx, "x", old); return err }(),
		"write":      func() error { _, err := f.WriteAt(ctx, []byte("x"), 0, old); return err }(),
		"append":     func() error { _, err := f.Append(ctx, []byte("x"), old); return err }(),
		"truncate":   f.Truncate(ctx, 0, old),
		"writeBytes": func() error { _, err := f.Replace(ctx, strings.NewReader("x"), old); return err }(),
	} {
		is(t, what+" with another version", err, vfs.Conflict)
	}
	ro := f.ReadOnly()
	for what, err := range map[string]error{
		"writeText": func() error { _, err := ro.WriteText(ctx, "x", vfs.If{}); return err }(),
		"write":     func() error { _, err := ro.WriteAt(ctx, []byte("x"), 0, vfs.If{}); return err }(),
		"append":    func() error { _, err := ro.Append(ctx, []byte("x"), vfs.If{}); return err }(),
		"truncate":  ro.Truncate(ctx, 0, vfs.If{}),
	} {
		is(t, what+" through readOnly()", err, vfs.ReadOnly)
	}
	reads(t, d, "f", "0123456789")
	ok(t, f.Sync(ctx))
	v2, err := f.WriteText(ctx, "new", vfs.If{Is: v})
	if ok(t, err); v2 == v || v2.IsZero() {
		t.Error("writeText answers no new version")
	}
	is(t, "writeText of no text", call(t, f.Cap(), schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error {
		return p.SetText("\xff")
	}, nil), vfs.Invalid)
	lent, r := f.Revocable()
	_, _, err = lent.ReadOnly().ReadText(ctx)
	ok(t, err)
	ok(t, r.Revoke(ctx))
	_, err = lent.Stat(ctx)
	is(t, "a revoked File", err, vfs.Revoked)
	_, _, err = f.ReadText(ctx)
	ok(t, err)
	ok(t, d.Remove(ctx, "f", vfs.If{}))
	_, _, err = f.ReadText(ctx)
	is(t, "a File whose file was removed", err, vfs.NotFound)
}

package cap_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// text is an exception as it arrived over the wire.
func text(t *testing.T, c *vat.Cap, m vat.Method[schema.Dir_openFile_Params, schema.Dir_openFile_Results], path string) string {
	t.Helper()
	err := vat.Do(t.Context(), c, m, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	if err == nil {
		t.Fatalf("openFile(%q) answers no error", path)
	}
	return err.Error()
}

// An error is "capd: code: path: message", with the path as the caller gave it.
func TestErrorTexts(t *testing.T) {
	dir := t.TempDir()
	store, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	t.Cleanup(func() { store.Close() })
	vfstest.Fill(t, store.Root(), vfstest.Tree{"a/b/f": {Data: "x"}, "a/d": {Dir: true}}, nil, nil)
	s := serve(t, store.Root(), nil)
	loc, _ := s.Grant(t, "agent", "a", false)
	d := scene.Dial(t, loc).Dir(context.Background())
	for path, want := range map[string]string{
		"missing":             "notFound: missing: ",
		"b/missing":           "notFound: b/missing: ",
		"b/f/x":               "notDir: b/f/x: ",
		"d":                   "isDir: d: ",
		"../a":                "invalid: ../a: ",
		"/etc/passwd":         "invalid: /etc/passwd: ",
		"revoked:":            "notFound: revoked:: ",
		"revoked: gone":       "notFound: revoked: gone: ",
		"capd: revoked: gone": "notFound: capd: revoked: gone: ",
		"b\xff\u202e\x1b[2J":  `notFound: b\xff\u202e\u001b[2J: `,
	} {
		if got := text(t, d.Cap(), schema.Dir_openFile, path); !strings.HasPrefix(got, "capd: "+want) || len(got) < len(want)+16 {
			t.Errorf("openFile(%q): %q, want %q and what to do", path, got, want)
		}
	}
	if got := text(t, d.SubDir("b").Cap(), schema.Dir_openFile, "missing"); !strings.HasPrefix(got, "capd: notFound: missing: ") {
		t.Errorf("an error of a SubDir names more than its own path: %q", got)
	}
	lent, r := d.Revocable()
	file := lent.OpenFile("b/f")
	ok(t, r.Revoke(t.Context()))
	_, _, err = file.ReadText(t.Context())
	for _, err := range []error{err, d.Remove(t.Context(), "b", vfs.If{}), d.Rename(t.Context(), "b", d, "d", vfs.If{}, vfs.If{})} {
		for _, secret := range []string{dir, filepath.Base(dir), s.At.Socket, loc.String()[len(loc.String())-43:], "a/"} {
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("an error says too much: %v", err)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	whole := strings.Repeat("x", wire.MaxWhole)
	_, _, d := guest(t, vfstest.Tree{"whole": {Data: whole}, "large": {Data: whole + "x"}, "bytes": {Data: "\xff\xfe"}})
	large, f := d.OpenFile("large"), d.OpenFile("whole")
	reads(t, d, "whole", whole)
	_, _, err := large.ReadText(t.Context())
	is(t, "readText of a large file", err, vfs.TooLarge)
	_, _, err = large.ReadBytes(t.Context())
	is(t, "readBytes of a large file", err, vfs.TooLarge)
	_, _, err = d.OpenFile("bytes").ReadText(t.Context())
	is(t, "readText of what is no text", err, vfs.Invalid)
	for n, want := range map[int]vfs.Code{wire.MaxWhole: "", wire.MaxWhole + 1: vfs.TooLarge} {
		data := make([]byte, n)
		is(t, "put", putRaw(t, d, "p", data), want)
		is(t, "writeBytes", call(t, f.Cap(), schema.File_writeBytes, func(p schema.File_writeBytes_Params, _ *vat.Caps) error {
			return p.SetData(data)
		}, nil), want)
		is(t, "writeText", call(t, f.Cap(), schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error {
			return p.SetText(whole + strings.Repeat("x", n-wire.MaxWhole))
		}, nil), want)
	}
	for n, want := range map[int]vfs.Code{wire.MaxChunk: "", wire.MaxChunk + 1: vfs.TooLarge} {
		data := make([]byte, n)
		is(t, "write", call(t, f.Cap(), schema.File_write, func(p schema.File_write_Params, _ *vat.Caps) error { return p.SetData(data) }, nil), want)
		is(t, "append", call(t, f.Cap(), schema.File_append, func(p schema.File_append_Params, _ *vat.Caps) error { return p.SetData(data) }, nil), want)
		is(t, "read", call(t, f.Cap(), schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error {
			p.SetLength(uint32(n))
			return nil
		}, nil), want)
	}
	for _, off := range []uint64{1 << 63, 1<<64 - 1} {
		is(t, "read", call(t, f.Cap(), schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error { p.SetOffset(off); return nil }, nil), vfs.Invalid)
		is(t, "write", call(t, f.Cap(), schema.File_write, func(p schema.File_write_Params, _ *vat.Caps) error { p.SetOffset(off); return nil }, nil), vfs.Invalid)
		is(t, "truncate", call(t, f.Cap(), schema.File_truncate, func(p schema.File_truncate_Params, _ *vat.Caps) error { p.SetSizeBytes(off); return nil }, nil), vfs.Invalid)
	}
	is(t, "read of very many", call(t, f.Cap(), schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error {
		p.SetLength(1<<32 - 1)
		return nil
	}, nil), vfs.TooLarge)
}

func putRaw(t *testing.T, d *client.Dir, path string, data []byte) error {
	t.Helper()
	return call(t, d.Cap(), schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error {
		ok(t, p.SetPath(path))
		return p.SetData(data)
	}, nil)
}

// A call on something that does not exist has a code too, as it arrives over the wire.
func TestNoSuchCall(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "x"}, "d": {Dir: true}})
	f := d.OpenFile("f")
	defer f.Close()
	walked := vat.Send(t.Context(), d.Cap(), schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetStatOnly(true) // so that the node has no capability
		return p.SetPath("d")
	})
	defer walked.Release()
	null := walked.Cap(schema.Dir_walk_Results_node, schema.Node_dir)
	defer null.Release()
	for _, c := range []struct {
		what string
		text func() error
		want vfs.Code
		kind vat.ExceptionType
	}{
		{"an unknown interface", func() error {
			return vat.Do(t.Context(), d.Cap(), vat.Method[vat.Empty, vat.Empty]{Interface: 1}, nil, nil)
		}, vfs.Unsupported, vat.Unimplemented},
		{"an unknown method", func() error {
			return vat.Do(t.Context(), d.Cap(), vat.Method[vat.Empty, vat.Empty]{Interface: schema.Dir_list.Interface, ID: 999}, nil, nil)
		}, vfs.Unsupported, vat.Unimplemented},
		{"a Dir's method on a File", func() error { return vat.Do(t.Context(), f.Cap(), schema.Dir_list, nil, nil) }, vfs.Unsupported, vat.Unimplemented},
		{"a File's method on a Dir", func() error { return vat.Do(t.Context(), d.Cap(), schema.File_readText, nil, nil) }, vfs.Unsupported, vat.Unimplemented},
		{"a null capability", func() error { return vat.Do(t.Context(), null, schema.Dir_list, nil, nil) }, vfs.Invalid, vat.Failed},
	} {
		err := c.text()
		e, isOne := errors.AsType[*vat.Exception](err)
		if !isOne {
			t.Fatalf("%s: %v", c.what, err)
		}
		// A call on a part of results that have already arrived fails in this process,
		// with an error of package vat.
		if !e.Own() && !strings.HasPrefix(e.Reason, "capd: "+string(c.want)+": ") || e.Type != c.kind {
			t.Errorf("%s: %v %q, want the code %s and %v", c.what, e.Type, e.Reason, c.want, c.kind)
		}
		is(t, c.what, wire.Decode(err), c.want)
	}
}

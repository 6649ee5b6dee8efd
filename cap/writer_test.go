package cap_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// stage opens a writer at a path.
func stage(t *testing.T, d *client.Dir, path string, cond vfs.If) *vat.Cap {
	t.Helper()
	a := vat.Send(t.Context(), d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error {
		ok(t, wire.SetIf(cond, p.NewIfVersion))
		return p.SetPath(path)
	})
	defer a.Release()
	return a.Cap(schema.Dir_stage_Results_writer)
}

func write(t *testing.T, w *vat.Cap, data string) error {
	t.Helper()
	a := vat.Send(t.Context(), w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error {
		return p.SetData([]byte(data))
	})
	defer a.Release()
	_, _, err := a.Await(t.Context())
	return wire.Decode(err)
}

func commit(t *testing.T, w *vat.Cap) (v []byte, err error) {
	t.Helper()
	err = call(t, w, schema.Writer_commit, nil, func(r schema.Writer_commit_Results, _ *vat.Caps) error {
		b, err := r.Version()
		v = append(v, b...)
		return err
	})
	return v, err
}

func TestWriter(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "old"}})
	w := stage(t, d, "f", vfs.If{})
	ok(t, write(t, w, "new "))
	ok(t, write(t, w, ""))
	reads(t, d, "f", "old")
	ok(t, write(t, w, "content"))
	v, err := commit(t, w)
	ok(t, err)
	if sum := sha256.Sum256([]byte("new content")); string(v) != string(sum[:]) {
		t.Error("commit answers another version than the content's")
	}
	reads(t, d, "f", "new content")
	_, err = commit(t, w)
	is(t, "commit for the second time", err, vfs.Invalid)
	is(t, "write after commit", write(t, w, "x"), vfs.Invalid)
	w = stage(t, d, "empty", vfs.If{Absent: true})
	_, err = commit(t, w)
	ok(t, err)
	reads(t, d, "empty", "")
}

func TestWriterLarge(t *testing.T) {
	data := pattern(20<<20 + 7)
	_, _, d := guest(t, vfstest.Tree{})
	v, err := d.Put(t.Context(), "f", strings.NewReader(data), vfs.If{})
	ok(t, err)
	if v != sha256.Sum256([]byte(data)) {
		t.Error("another version than the content's")
	}
	var got strings.Builder
	_, err = d.OpenFile("f").Stream(t.Context(), &got, 0, 0)
	ok(t, err)
	if got.String() != data {
		t.Error("another content")
	}
	f := d.OpenFile("f")
	_, err = f.Replace(t.Context(), strings.NewReader(data[1:]), vfs.If{Is: v})
	ok(t, err)
	_, err = f.Replace(t.Context(), strings.NewReader(data[2:]), vfs.If{Is: v})
	is(t, "a large replacement with an old condition", err, vfs.Conflict)
}

// stageOf returns the result of stage itself.
func stageOf(t *testing.T, d *client.Dir, path string, cond vfs.If) error {
	t.Helper()
	return call(t, d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error {
		ok(t, wire.SetIf(cond, p.NewIfVersion))
		return p.SetPath(path)
	}, nil)
}

// What cannot be written is refused when it is staged. It is refused again later, for a
// caller that did not wait for that.
func TestWriterRefused(t *testing.T) {
	tree := scene.InMemory(t, vfstest.Tree{"f": {Data: "old"}, "d/g": {}, ".env": {}, ".git/config": {}, "link": {Link: "f"}, "dangling": {Link: "nowhere"}})
	s := serve(t, membrane.Guarded(tree, nil, deny.Must("**/.env").Guard(), deny.Must(".git/**").Ask("it")), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	d := scene.Dial(t, loc).Dir(context.Background())
	for _, c := range []struct {
		path string
		cond vfs.If
		want vfs.Code
	}{
		{"f", vfs.If{Absent: true}, vfs.Conflict}, {"f", vfs.If{Is: vfs.Version{1}}, vfs.Conflict},
		{"missing", vfs.If{Is: vfs.Version{1}}, vfs.Conflict}, {"d", vfs.If{}, vfs.IsDir}, {"../x", vfs.If{}, vfs.Invalid},
		{"missing/x", vfs.If{}, vfs.NotFound}, {"f/x", vfs.If{}, vfs.NotDir}, {"", vfs.If{}, vfs.Invalid},
		{".env", vfs.If{}, vfs.Denied}, {"d/.env", vfs.If{}, vfs.Denied}, {".git/config", vfs.If{}, vfs.AskDenied},
		{"dangling", vfs.If{}, vfs.NotFound}, {"new\x01", vfs.If{}, vfs.Invalid},
	} {
		is(t, "stage at "+c.path, stageOf(t, d, c.path, c.cond), c.want)
		w := stage(t, d, c.path, c.cond)
		write(t, w, "x")
		_, err := commit(t, w)
		is(t, "staged at "+c.path, err, c.want)
		w.Release()
	}
	is(t, "stage read-only", stageOf(t, d.ReadOnly(), "f", vfs.If{}), vfs.ReadOnly)
	is(t, "a File read-only", call(t, d.OpenFile("f").ReadOnly().Cap(), schema.File_stage, nil, nil), vfs.ReadOnly)
	gone, err := d.CreateFile(t.Context(), "gone")
	ok(t, err)
	ok(t, d.Remove(t.Context(), "gone", vfs.If{}))
	is(t, "a File that was removed", call(t, gone.Cap(), schema.File_stage, nil, nil), vfs.NotFound)
	is(t, "a File by a link", stageOf(t, d, "link", vfs.If{}), "")
	w := stage(t, d.ReadOnly(), "f", vfs.If{})
	_, err = commit(t, w)
	is(t, "staged read-only", err, vfs.ReadOnly)
	reads(t, d, "f", "old")
}

// The first error of a writer is the error of all later calls.
func TestWriterKeepsItsError(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "old"}})
	w := stage(t, d, "f", vfs.If{})
	big := strings.Repeat("x", wire.MaxChunk+1)
	is(t, "too much at once", write(t, w, big), vfs.TooLarge)
	is(t, "the next write, on the same reference", write(t, w, "x"), vfs.TooLarge)
	other := w.AddRef() // without the client's own memory of the error
	for range 3 {
		is(t, "the next write", write(t, other, "x"), vfs.TooLarge)
	}
	_, err := commit(t, w)
	is(t, "commit", err, vfs.TooLarge)
	reads(t, d, "f", "old")
}

func TestWriterDropped(t *testing.T) {
	s, c, d := guest(t, vfstest.Tree{"f": {Data: "old"}})
	for range 3 * meter.GrantLimits()[meter.Streams] {
		w := stage(t, d, "f", vfs.If{})
		ok(t, write(t, w, "half"))
		w.Release()
		reads(t, d, "f", "old")
	}
	for range 3 {
		w := stage(t, d, "fresh", vfs.If{})
		ok(t, write(t, w, "half"))
	}
	c.Close()
	eventually(t, "the connection is gone", func() bool { return s.Server.Conns() == 0 })
	loc, _ := s.Grant(t, "other", "", false)
	d = scene.Dial(t, loc).Dir(context.Background())
	reads(t, d, "f", "old")
	_, err := d.Lookup(t.Context(), "fresh")
	is(t, "what was never committed", err, vfs.NotFound)
}

func TestWriterOutlivesItsDir(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"d/f": {Data: "old"}})
	for range 20 {
		sub := d.SubDir("d")
		w := stage(t, sub, "f", vfs.If{})
		sub.Close()
		ok(t, write(t, w, "new"))
		_, err := commit(t, w)
		ok(t, err)
	}
	reads(t, d, "d/f", "new")
}

func TestWriterRevoked(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "old"}})
	lent, r := d.Revocable()
	w := stage(t, lent, "f", vfs.If{})
	f := lent.OpenFile("f")
	a := vat.Send(t.Context(), f.Cap(), schema.File_stage, nil)
	defer a.Release()
	fw := a.Cap(schema.File_stage_Results_writer)
	for _, w := range []*vat.Cap{w, fw} {
		ok(t, write(t, w, "half"))
	}
	ok(t, r.Revoke(t.Context()))
	for _, w := range []*vat.Cap{w, fw} {
		is(t, "write", write(t, w, "x"), vfs.Revoked)
		_, err := commit(t, w.AddRef())
		is(t, "commit", err, vfs.Revoked)
	}
	reads(t, d, "f", "old")
}

func TestWritersAreBounded(t *testing.T) {
	s, _, d := guest(t, vfstest.Tree{})
	const most = 100
	_, err := s.Authority.SetLimits("agent", meter.Limits{meter.Writers: most})
	ok(t, err)
	var ws []*vat.Cap
	for range most {
		w := stage(t, d, "f", vfs.If{})
		ok(t, write(t, w, "x"))
		ws = append(ws, w)
	}
	is(t, "one more", write(t, stage(t, d, "f", vfs.If{}), "x"), vfs.Limit)
	for _, w := range ws {
		w.Release()
	}
	eventually(t, "there is room again", func() bool { return write(t, stage(t, d, "f", vfs.If{}), "x") == nil })
}

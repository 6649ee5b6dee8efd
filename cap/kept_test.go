package cap_test

import (
	"runtime"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// heap returns how many bytes are allocated and reachable in this process.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A Writer that has ended counts until it is released, but uses hardly any memory.
func TestEndedWritersAreBounded(t *testing.T) {
	path := strings.Repeat("d/", 100) + strings.Repeat("x", vfs.MaxName)
	s, _, d := guest(t, vfstest.Tree{path: {}})
	const most = 1024 // so many that what else the process holds now and not before is little beside them
	_, err := s.Authority.SetLimits("agent", meter.Limits{meter.Writers: most})
	ok(t, err)
	staged := func() (*vat.Cap, error) {
		w := stage(t, d, path, vfs.If{})
		_, err := commit(t, w)
		return w, err
	}
	warm, err := staged() // what is made once
	ok(t, err)
	warm.Release()
	before := heap()
	var held []*vat.Cap
	for range most {
		w, err := staged()
		ok(t, err)
		held = append(held, w)
	}
	each := (heap() - before) / most
	for range 10 { // what the connection's goroutines still hold of the last calls is none of theirs
		each = min(each, (heap()-before)/most)
	}
	t.Logf("a Writer that has ended holds %d bytes", each)
	if each > 1600 { // on both sides, with the client's
		t.Errorf("that is more than 1600")
	}
	w, err := staged()
	is(t, "one more", err, vfs.Limit)
	w.Release()
	for _, w := range held {
		w.Release()
	}
	eventually(t, "there is room again", func() bool {
		w, err := staged()
		w.Release()
		return err == nil
	})
}

// longCall makes a call and leaves its answer with the host.
func longCall[P, R ~capnp.StructKind](t *testing.T, c *vat.Cap, m vat.Method[P, R], place func(P) error) error {
	t.Helper()
	a := vat.Send(t.Context(), c, m, func(p P, _ *vat.Caps) error { return place(p) })
	t.Cleanup(a.Release)
	_, _, err := a.Await(t.Context())
	return wire.Decode(err)
}

// A path or name that is too long is refused, and nothing of it is kept or repeated.
func TestLongPaths(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {}})
	long := strings.Repeat("x", 7<<20)
	before := heap()
	for what, err := range map[string]error{
		"walk":       longCall(t, d.Cap(), schema.Dir_walk, func(p schema.Dir_walk_Params) error { return p.SetPath(long) }),
		"openDir":    longCall(t, d.Cap(), schema.Dir_openDir, func(p schema.Dir_openDir_Params) error { return p.SetPath(long) }),
		"openFile":   longCall(t, d.Cap(), schema.Dir_openFile, func(p schema.Dir_openFile_Params) error { return p.SetPath(long) }),
		"subDir":     longCall(t, d.Cap(), schema.Dir_subDir, func(p schema.Dir_subDir_Params) error { return p.SetPath(long) }),
		"put":        longCall(t, d.Cap(), schema.Dir_put, func(p schema.Dir_put_Params) error { return p.SetPath(long) }),
		"stage":      longCall(t, d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params) error { return p.SetPath(long) }),
		"glob":       longCall(t, d.Cap(), schema.Dir_glob, func(p schema.Dir_glob_Params) error { return p.SetPattern(long) }),
		"createDir":  longCall(t, d.Cap(), schema.Dir_createDir, func(p schema.Dir_createDir_Params) error { return p.SetPath(long) }),
		"createFile": longCall(t, d.Cap(), schema.Dir_createFile, func(p schema.Dir_createFile_Params) error { return p.SetPath(long) }),
		"remove":     longCall(t, d.Cap(), schema.Dir_remove, func(p schema.Dir_remove_Params) error { return p.SetPath(long) }),
		"move":       longCall(t, d.Cap(), schema.Dir_move, func(p schema.Dir_move_Params) error { return p.SetPath(long) }),
		"move to": longCall(t, d.Cap(), schema.Dir_move, func(p schema.Dir_move_Params) error {
			ok(t, p.SetPath("f"))
			return p.SetNewPath(long)
		}),
	} {
		is(t, what, err, vfs.Limit)
		if text := err.Error(); len(text) > 200 {
			t.Errorf("%s answers %d bytes: %.100s", what, len(text), text)
		}
	}
	err := longCall(t, d.Cap(), schema.Dir_get, func(p schema.Dir_get_Params) error { return p.SetName(long) })
	is(t, "get", err, vfs.Invalid)
	err = longCall(t, d.Cap(), schema.Dir_help, func(p schema.Dir_help_Params) error { return p.SetMethod(long) })
	is(t, "help", err, vfs.Limit)
	if kept := heap() - before; kept > 2<<20 {
		t.Errorf("%d KiB are kept", kept>>10)
	}
}

// The Revoker of a revoked share counts as long as it is held.
func TestHeldRevokersAreBounded(t *testing.T) {
	const nodes = 50
	s := serve(t, scene.InMemory(t, vfstest.Tree{"d/f": {}}), meter.Limits{meter.Nodes: nodes})
	loc, _ := s.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)
	d := c.Dir(t.Context())
	var held []*client.Revoker
	share := func() error {
		_, r, err := c.Share(t.Context(), d)
		if err == nil {
			held = append(held, r)
			err = r.Revoke(t.Context())
		}
		return err
	}
	var err error
	for err == nil && len(held) <= nodes {
		err = share()
	}
	is(t, "one Revoker more than there may be nodes", err, vfs.Limit)
	for _, r := range held {
		r.Close()
	}
	eventually(t, "there is room again", func() bool { return share() == nil })
}

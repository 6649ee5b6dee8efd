package cap_test

import (
	"context"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

var moveTree = vfstest.Tree{"a/f": {Data: "f"}, "b/g": {Data: "g"}, "c": {Dir: true}}

// move is Dir.move with any capability as its target.
func move(t *testing.T, src *vat.Cap, path string, dst *vat.Cap, newPath string) error {
	t.Helper()
	return call(t, src, schema.Dir_move, func(p schema.Dir_move_Params, c *vat.Caps) error {
		ok(t, p.SetPath(path))
		ok(t, p.SetNewPath(newPath))
		if dst == nil {
			return nil
		}
		return p.SetDst(c.Put(dst.AddRef()))
	}, nil)
}

func TestMove(t *testing.T) {
	_, _, d := guest(t, moveTree)
	ok(t, move(t, d.Cap(), "a/f", nil, "c/f")) // null: within itself
	reads(t, d, "c/f", "f")
	// Both directories are promises, at the end of more than one step.
	ok(t, move(t, d.SubDir("c").Cap(), "f", d.SubDir("b").Cap(), "f"))
	lent, _ := d.Revocable()
	ok(t, move(t, lent.SubDir("b").Cap(), "f", lent.SubDir("c").Cap(), "h"))
	reads(t, d, "c/h", "f")
	for what, c := range map[string]struct {
		err  error
		want vfs.Code
	}{
		"onto a name that is taken":   {move(t, d.Cap(), "c/h", nil, "b/g"), vfs.Exists},
		"what is missing":             {move(t, d.Cap(), "c/x", nil, "b/x"), vfs.NotFound},
		"to where nothing is":         {move(t, d.Cap(), "c/h", nil, "x/h"), vfs.NotFound},
		"to a bad name":               {move(t, d.Cap(), "c/h", nil, "../h"), vfs.Invalid},
		"to a read-only Dir":          {move(t, d.Cap(), "c/h", d.ReadOnly().Cap(), "h"), vfs.ReadOnly},
		"from a read-only Dir":        {move(t, d.ReadOnly().Cap(), "c/h", d.Cap(), "h"), vfs.ReadOnly},
		"into itself":                 {move(t, d.Cap(), "c", nil, "c/c"), vfs.Invalid},
		"to a promise that fails":     {d.Move(t.Context(), "c/h", d.SubDir("missing"), "h", vfs.If{}, vfs.If{}), vfs.NotFound},
		"to a promise that failed":    {d.Move(t.Context(), "c/h", known(t, d.SubDir("missing")), "h", vfs.If{}, vfs.If{}), vfs.NotFound},
		"to a File":                   {move(t, d.Cap(), "c/h", d.OpenFile("b/g").Cap(), "h"), vfs.NotDir},
		"a directory, with a version": {d.Move(t.Context(), "c", d, "e", vfs.If{Is: vfs.Version{1}}, vfs.If{}), vfs.Invalid},
		"another version":             {d.Move(t.Context(), "c/h", d, "e", vfs.If{Is: vfs.Version{1}}, vfs.If{}), vfs.Conflict},
		"over another version":        {d.Move(t.Context(), "c/h", d, "b/g", vfs.If{}, vfs.If{Is: vfs.Version{1}}), vfs.Conflict},
	} {
		is(t, what, c.err, c.want)
	}
	reads(t, d, "c/h", "f")
	v, err := d.OpenFile("b/g").Version(t.Context())
	ok(t, err)
	ok(t, d.Move(t.Context(), "c/h", d, "b/g", vfs.If{}, vfs.If{Is: v}))
	reads(t, d, "b/g", "f")
}

// known returns d when it is known whether it leads anywhere.
func known(t *testing.T, d *client.Dir) *client.Dir {
	_, _ = d.Stat(t.Context())
	return d
}

// Two grants of one host are held over one connection, and over two.
func TestMoveBetweenGrants(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, moveTree), meter.Limits{meter.StoredBytes: 1000, meter.StoredNodes: 10})
	one, g1 := s.Grant(t, "one", "a", false)
	two, g2 := s.Grant(t, "two", "", false)
	session := s.session(t)
	a, b := restore(ctx, session, one.Secret[:]), restore(ctx, session, two.Secret[:]) // not waited for
	ok(t, move(t, a, "f", b, "moved"))
	u1, err := s.Authority.Meter(t.Context(), g1.ID)
	ok(t, err)
	u2, err := s.Authority.Meter(t.Context(), g2.ID)
	ok(t, err)
	for _, k := range []meter.Kind{meter.StoredNodes, meter.StoredBytes} {
		if of, has := u1.Used(k), u2.Used(k); of != 0 || has != 1 {
			t.Errorf("the target's grant has to pay: %v are %d, %d", k, of, has)
		}
	}
	ok(t, move(t, b, "moved", a, "f")) // from the root of one to that of the other

	// Over another connection the guest stands between.
	other := restore(ctx, s.session(t), two.Secret[:])
	ok(t, call(t, other, schema.Dir_stat, nil, nil))
	is(t, "a Dir that this guest holds of another connection", move(t, a, "f", other, "x"), vfs.Unsupported)

	_, err = s.Authority.Revoke("two")
	ok(t, err)
	is(t, "a revoked target", move(t, a, "f", b, "x"), vfs.Revoked)
}

// A directory that a guest serves is recognized, and never called.
func TestMoveToAGuestsOwn(t *testing.T) {
	_, _, d := guest(t, moveTree)
	called := make(chan struct{}, 10)
	mine := vat.Serve(vat.NewTable(vat.Handle(schema.Dir_put, func(chan struct{}, vat.Call[schema.Dir_put_Params, schema.Dir_put_Results]) error {
		called <- struct{}{}
		return nil
	}), vat.Handle(schema.Dir_stat, func(chan struct{}, vat.Call[schema.Dir_stat_Params, schema.Dir_stat_Results]) error {
		called <- struct{}{}
		return nil
	})), called)
	defer mine.Release()
	is(t, "a guest's own directory", move(t, d.Cap(), "a/f", mine, "f"), vfs.Unsupported)
	select {
	case <-called:
		t.Error("the host called a guest's directory")
	case <-time.After(20 * time.Millisecond):
	}
	reads(t, d, "a/f", "f")
}

// A promise of the guest may never be resolved. Cancelling the move ends it.
func TestMoveToAPromiseNeverKept(t *testing.T) {
	s, _, d := guest(t, moveTree)
	never := vat.Serve(vat.NewTable(vat.Handle(schema.Dir_subDir, func(_ int, c vat.Call[schema.Dir_subDir_Params, schema.Dir_subDir_Results]) error {
		<-c.Context().Done()
		return nil
	})), 0)
	defer never.Release()
	a := vat.Send(t.Context(), never, schema.Dir_subDir, nil)
	promised := a.Cap(schema.Dir_subDir_Results_dir)
	defer promised.Release()
	defer a.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := wire.Decode(vat.Do(ctx, d.Cap(), schema.Dir_move, func(p schema.Dir_move_Params, c *vat.Caps) error {
		ok(t, p.SetPath("a/f"))
		ok(t, p.SetNewPath("f"))
		return p.SetDst(c.Put(promised.AddRef()))
	}, nil))
	if err == nil {
		t.Error("a move to a promise that is never kept succeeds")
	}
	eventually(t, "the host has ended the call", func() bool { return s.Server.Stats()[0].Calls == 0 })
	reads(t, d, "a/f", "f")
}

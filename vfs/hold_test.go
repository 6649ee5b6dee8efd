package vfs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/vfstest"
)

// batch is what the tests hold.
var batch = []vfs.Op{{Kind: vfs.OpReplace, Path: "m/a/f"}, {Kind: vfs.OpRemove, Path: "m/a/b/f"}, {Kind: vfs.OpRename, Path: "m/f", To: "m/z/f"}, {Kind: vfs.OpMkdir, Path: "new"}}

func holding(t testing.TB, d vfs.Dir) (context.Context, func()) {
	t.Helper()
	ctx, release, err := vfs.Hold(t.Context(), d, batch)
	ok(t, err)
	return ctx, release
}

// makes makes the batch's changes.
func makes(ctx context.Context, d vfs.Dir) error {
	m, err := vfs.WalkDir(ctx, d, "m")
	if err != nil {
		return err
	}
	defer m.Close()
	if err := put(ctx, m, "a/f", "made"); err != nil {
		return err
	}
	b, err := vfs.WalkDir(ctx, m, "a/b")
	if err != nil {
		return err
	}
	defer b.Close()
	n, err := b.Lookup(ctx, "f")
	if err != nil {
		return err
	}
	defer n.Close()
	v, err := vfs.VersionOf(ctx, n.(vfs.File))
	if err != nil {
		return err
	}
	if err := b.Remove(ctx, "f", vfs.If{Is: v}); err != nil {
		return err
	}
	z, err := vfs.WalkDir(ctx, m, "z")
	if err != nil {
		return err
	}
	defer z.Close()
	if err := m.Rename(ctx, "f", z, "f", vfs.If{}, vfs.If{}); err != nil {
		return err
	}
	made, err := d.Mkdir(ctx, "new")
	if err == nil {
		made.Close()
	}
	return err
}

// mounts is a namespace with a sample at m, over another tree.
func mounts(t testing.TB, guards ...vfs.Guard) *vfs.Namespace {
	t.Helper()
	ns := vfs.NewNamespace()
	mount(t, ns, "", vfstest.Tree{"beside": {Data: "x"}})
	_, d := store(t, sample)
	ok(t, ns.Mount("m", d, vfs.MountOptions{Guards: guards}))
	return ns
}

// TestHold shuts the gate, or a mount, under a batch: it waits, the batch is made,
// and everybody else is refused at once.
func TestHold(t *testing.T) {
	type shutter struct {
		shut func(*vfs.Control, *vfs.Namespace) error
		code vfs.Code
		now  bool // it waits for nobody
	}
	for name, s := range map[string]shutter{
		"revoke":    {func(c *vfs.Control, _ *vfs.Namespace) error { return c.Revoke() }, vfs.Revoked, false},
		"lock":      {func(c *vfs.Control, _ *vfs.Namespace) error { return c.SetWritable(false) }, vfs.ReadOnly, false},
		"unmount":   {func(_ *vfs.Control, ns *vfs.Namespace) error { return ns.Unmount(context.Background(), "m") }, vfs.Stale, false},
		"expire":    {func(c *vfs.Control, _ *vfs.Namespace) error { c.ExpireAt(time.Now()); return nil }, vfs.Expired, true},
		"of parent": {nil, vfs.Revoked, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := mounts(t, policies()...)
				d, c := controlled(t, vfs.Guarded(ns.Root(), nil, policies()...))
				if name == "of parent" {
					parent := c
					d, c = controlled(t, d)
					s.shut = func(*vfs.Control, *vfs.Namespace) error { return parent.Revoke() }
				}
				ctx, release := holding(t, d)
				staged := &asking{ask: make(chan struct{}), data: strings.NewReader("slow")}
				slow := make(chan error)
				go func() {
					_, err := vfs.Put(ctx, d, "m/a/f", staged, vfs.If{}) // begins before, ends after
					slow <- err
				}()
				shut := make(chan error)
				go func() { shut <- s.shut(c, ns) }()
				synctest.Wait()
				select {
				case err := <-shut:
					if !s.now {
						t.Fatalf("it did not wait: %v", err)
					}
				default:
				}
				is(t, "another context", put(t.Context(), d, "m/a/f", "x"), s.code)
				close(staged.ask)
				ok(t, <-slow)
				ok(t, makes(ctx, d))
				release()
				release()
				if !s.now {
					ok(t, <-shut)
				}
				after := s.code
				if name == "unmount" {
					after = vfs.NotFound
				}
				is(t, "after the release", put(ctx, d, "m/a/f", "x"), after)
			})
		})
	}
}

// asking reads data once it was asked to.
type asking struct {
	ask  chan struct{}
	data *strings.Reader
}

func (a *asking) Read(p []byte) (int, error) {
	<-a.ask
	return a.data.Read(p)
}

// TestHoldStuck is a batch that does not end within the grace.
func TestHoldStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := controlled(t, vfs.Guarded(mounts(t).Root(), nil))
		ctx, release := holding(t, d)
		err := c.Revoke()
		is(t, "revoke", err, vfs.Busy)
		if !strings.Contains(err.Error(), "a batch of 4") {
			t.Error(err)
		}
		ok(t, makes(ctx, d))
		release()
		ok(t, c.Revoke())
	})
}

// TestHoldRefuses: the first refusal is answered, with its path, and nothing is held
// then.
func TestHoldRefuses(t *testing.T) {
	hides := deny.Must("**/a/b/**").Guard()
	asks := deny.Must("**/a/b/**").Ask(nil)
	for name, c := range map[string]struct {
		d    func(t *testing.T) vfs.Dir
		want vfs.Code
		path string
	}{
		"read-only": {func(t *testing.T) vfs.Dir {
			d, err := vfs.ReadOnlyDir(vfs.Guarded(mounts(t).Root(), nil))
			ok(t, err)
			return d
		}, vfs.ReadOnly, "m/a/f"},
		"denied":        {func(t *testing.T) vfs.Dir { return vfs.Guarded(mounts(t).Root(), nil, hides) }, vfs.Denied, "m/a/b/f"},
		"denied within": {func(t *testing.T) vfs.Dir { return vfs.Guarded(mounts(t, hides).Root(), nil) }, vfs.Denied, "m/a/b/f"},
		"asked":         {func(t *testing.T) vfs.Dir { return vfs.Guarded(mounts(t).Root(), nil, asks) }, vfs.AskDenied, "m/a/b/f"},
		"asked within":  {func(t *testing.T) vfs.Dir { return vfs.Guarded(mounts(t, asks).Root(), nil) }, vfs.AskDenied, "m/a/b/f"},
		"a mount": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			mount(t, ns, "m/z/f", nil)
			return vfs.Guarded(ns.Root(), nil)
		}, vfs.Busy, "m/f"},
		"what leads": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			ok(t, ns.Unmount(t.Context(), ""))
			return vfs.Guarded(ns.Root(), nil)
		}, vfs.ReadOnly, "new"},
		"a read-only mount": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			_, d := store(t, sample)
			ok(t, ns.Mount("m/a/b", d, vfs.MountOptions{ReadOnly: true}))
			return vfs.Guarded(ns.Root(), nil)
		}, vfs.ReadOnly, "m/a/b/f"},
		"a route": {func(t *testing.T) vfs.Dir {
			d, c := controlled(t, vfs.Guarded(mounts(t).Root(), nil))
			ok(t, child(t, c, "m", "a").SetWritable(false))
			return d
		}, vfs.ReadOnly, "m/a/f"},
	} {
		t.Run(name, func(t *testing.T) {
			d, control := controlled(t, c.d(t))
			before := picture(t, d)
			_, _, err := vfs.Hold(t.Context(), d, batch)
			is(t, "hold", err, c.want)
			if !strings.Contains(err.Error(), ": "+c.path) {
				t.Errorf("%v does not name %s", err, c.path)
			}
			if n := vfs.Changing(control.Gate); n != 0 {
				t.Errorf("%d changes are under way", n)
			}
			if after := picture(t, d); after != before {
				t.Errorf("changed to %s", after)
			}
			ok(t, control.Revoke())
		})
	}
	_, _, err := vfs.Hold(t.Context(), vfs.Guarded(mounts(t).Root(), nil), []vfs.Op{{Kind: vfs.OpRemove, Path: "../x"}})
	is(t, "a bad path", err, vfs.Invalid)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := vfs.Hold(cancelled, vfs.Guarded(mounts(t).Root(), nil), batch); err != context.Canceled {
		t.Error(err)
	}
}

// TestHoldDoesNotWiden: a batch passes what waits for it, and nothing else.
func TestHoldDoesNotWiden(t *testing.T) {
	ns := mounts(t)
	d, c := controlled(t, vfs.Guarded(ns.Root(), nil))
	other, co := controlled(t, vfs.Guarded(ns.Root(), nil))
	ctx, release := holding(t, d)
	defer release()
	ok(t, co.Revoke()) // of another grant: it waits for nobody
	is(t, "another grant", put(ctx, other, "m/a/f", "x"), vfs.Revoked)
	ro, err := vfs.ReadOnlyDir(d)
	ok(t, err)
	is(t, "an attenuation", put(ctx, ro, "m/a/f", "x"), vfs.ReadOnly)
	c.SetReadable(false)
	_, err = names(ctx, d)
	is(t, "reading, which waits for nobody", err, vfs.Denied)
	c.SetReadable(true)
	ok(t, child(t, c, "m", "a").SetWritable(false))
	is(t, "a route from now on", put(ctx, d, "m/a/f", "x"), vfs.ReadOnly)
	closed := dirAt(t, d, "m")
	ok(t, closed.Close())
	is(t, "what was closed", put(ctx, closed, "z/x", "x"), vfs.Stale)
	mount(t, ns, "m/z", nil)
	is(t, "what was mounted over", makes(ctx, d), vfs.ReadOnly) // the route comes first
}

// TestHoldDoesNotWidenWhenShut: nor does one whose gate was shut meanwhile.
func TestHoldDoesNotWidenWhenShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := controlled(t, vfs.Guarded(mounts(t).Root(), nil))
		ro, err := vfs.ReadOnlyDir(d)
		ok(t, err)
		ctx, release := holding(t, d)
		locked := make(chan error)
		go func() { locked <- c.SetWritable(false) }()
		synctest.Wait()
		ok(t, put(ctx, d, "m/a/f", "x"))
		is(t, "an attenuation", put(ctx, ro, "m/a/f", "x"), vfs.ReadOnly)
		is(t, "an attenuation, of a bad name", put2(ctx, ro, ".."), vfs.ReadOnly)
		m := dirAt(t, ro, "m")
		is(t, "a rename out of one", m.Rename(ctx, "f", d, "f", vfs.If{}, vfs.If{}), vfs.ReadOnly)
		release()
		ok(t, <-locked)
	})
}

// TestHoldReadsWhatMoves: a move in a batch needs what a move needs.
func TestHoldReadsWhatMoves(t *testing.T) {
	d, c := controlled(t, vfs.Guarded(mounts(t).Root(), nil))
	c.SetReadable(false)
	for _, op := range batch {
		_, release, err := vfs.Hold(t.Context(), d, []vfs.Op{op})
		want := vfs.Code("")
		if op.Kind == vfs.OpRename {
			want = vfs.Denied
		}
		is(t, op.Kind.String(), err, want)
		if err == nil {
			release()
		}
	}
}

// TestHoldAsksGuards: each sees every op ahead, by its own root, and again when it
// is made.
func TestHoldAsksGuards(t *testing.T) {
	seen := func(into *[]vfs.Op) vfs.Guard {
		return vfs.Guard{Changes: true, Around: func(ctx context.Context, op vfs.Op, do do) (vfs.Effect, error) {
			*into = append(*into, op)
			e, err := do(ctx)
			if op.Batch == vfs.Ahead && (e != vfs.Effect{}) {
				t.Errorf("ahead, %v changed %+v", op, e)
			}
			return e, err
		}}
	}
	var outer, inner []vfs.Op
	d := vfs.Guarded(mounts(t, seen(&inner)).Root(), nil, seen(&outer))
	before := picture(t, d)
	ctx, release := holding(t, d)
	want := func(what string, got []vfs.Op, batch vfs.Batch, want ...string) {
		t.Helper()
		var all []string
		for _, op := range got {
			if op.Batch != batch {
				t.Errorf("%s: %+v", what, op)
			}
			all = append(all, strings.TrimSpace(op.Kind.String()+" "+op.Path+" "+op.To))
		}
		if g, w := strings.Join(all, ", "), strings.Join(want, ", "); g != w {
			t.Errorf("%s: %s, want %s", what, g, w)
		}
	}
	want("outer", outer, vfs.Ahead, "replace m/a/f", "remove m/a/b/f", "rename m/f m/z/f", "mkdir new")
	want("inner", inner, vfs.Ahead, "replace a/f", "remove a/b/f", "rename f z/f")
	if now := picture(t, d); now != before {
		t.Errorf("changed to %s", now)
	}
	outer, inner = nil, nil
	ok(t, makes(ctx, d))
	want("outer", outer, vfs.InBatch, "replace m/a/f", "remove m/a/b/f", "rename m/f m/z/f", "mkdir new")
	want("inner", inner, vfs.InBatch, "replace a/f", "remove a/b/f", "rename f z/f")
	outer, inner = nil, nil
	ok(t, put(ctx, d, "m/a/g", "not asked for"))
	want("outer", outer, vfs.Alone, "replace m/a/g")
	want("inner", inner, vfs.Alone, "replace a/g")
	release()
	outer, inner = nil, nil
	ok(t, put(ctx, d, "m/a/f", "alone"))
	want("outer", outer, vfs.Alone, "replace m/a/f")
	want("inner", inner, vfs.Alone, "replace a/f")
}

// TestHoldOfABareStore is no more than its context.
func TestHoldOfABareStore(t *testing.T) {
	_, raw := store(t, sample)
	ctx, release, err := vfs.Hold(t.Context(), raw, batch)
	ok(t, err)
	if ctx != t.Context() {
		t.Error("another context")
	}
	release()
}

package membrane_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// batch is the set of changes for which the tests hold.
var batch = []membrane.Op{{Kind: membrane.OpReplace, Path: "m/a/f"}, {Kind: membrane.OpRemove, Path: "m/a/b/f"}, {Kind: membrane.OpRename, Path: "m/f", To: "m/z/f"}, {Kind: membrane.OpMkdir, Path: "new"}}

func holding(t testing.TB, d vfs.Dir) (context.Context, func()) {
	t.Helper()
	ctx, release, err := membrane.Hold(t.Context(), d, batch)
	check.OK(t, err)
	return ctx, release
}

// makes makes the batch's changes.
func makes(ctx context.Context, d vfs.Dir) error {
	m, err := vfs.WalkDir(ctx, d, "m")
	if err != nil {
		return err
	}
	defer m.Close()
	if err := check.Put(ctx, m, "a/f", "made"); err != nil {
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
func mounts(t testing.TB, guards ...membrane.Guard) *namespace.Namespace {
	t.Helper()
	ns := namespace.New()
	check.Mount(t, ns, "", vfstest.Tree{"beside": {Data: "x"}})
	_, d := check.Store(t, check.Sample)
	check.OK(t, ns.Mount("m", d, namespace.Options{Guards: guards}))
	return ns
}

// TestHold shuts the gate, or a mount, during a batch. It waits until the batch is done,
// and everybody else is refused at once.
func TestHold(t *testing.T) {
	type shutter struct {
		shut func(*membrane.Control, *namespace.Namespace) error
		code vfs.Code
		now  bool // it waits for nobody
	}
	for name, s := range map[string]shutter{
		"revoke":    {func(c *membrane.Control, _ *namespace.Namespace) error { return c.Revoke() }, vfs.Revoked, false},
		"lock":      {func(c *membrane.Control, _ *namespace.Namespace) error { return c.SetWritable(false) }, vfs.ReadOnly, false},
		"end":       {func(c *membrane.Control, _ *namespace.Namespace) error { return c.End() }, vfs.Stale, false},
		"unmount":   {func(_ *membrane.Control, ns *namespace.Namespace) error { return ns.Unmount(context.Background(), "m") }, vfs.Stale, false},
		"expire":    {func(c *membrane.Control, _ *namespace.Namespace) error { c.ExpireAt(time.Now()); return nil }, vfs.Expired, true},
		"of parent": {nil, vfs.Revoked, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := mounts(t, check.Policies()...)
				d, c := check.Controlled(t, membrane.Guarded(ns.Root(), nil, check.Policies()...))
				if name == "of parent" {
					parent := c
					d, c = check.Controlled(t, d)
					s.shut = func(*membrane.Control, *namespace.Namespace) error { return parent.Revoke() }
				}
				ctx, release := holding(t, d)
				staged := &check.Asking{Ask: make(chan struct{}), Data: strings.NewReader("slow")}
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
				check.Is(t, "another context", check.Put(t.Context(), d, "m/a/f", "x"), s.code)
				close(staged.Ask)
				check.OK(t, <-slow)
				check.OK(t, makes(ctx, d))
				release()
				release()
				if !s.now {
					check.OK(t, <-shut)
				}
				after := s.code
				if name == "unmount" {
					after = vfs.NotFound
				}
				check.Is(t, "after the release", check.Put(ctx, d, "m/a/f", "x"), after)
			})
		})
	}
}

// TestHoldStuck is a batch that does not end within the grace.
func TestHoldStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := check.Controlled(t, membrane.Guarded(mounts(t).Root(), nil))
		ctx, release := holding(t, d)
		err := c.Revoke()
		check.Is(t, "revoke", err, vfs.Busy)
		if !strings.Contains(err.Error(), "a batch of 4") {
			t.Error(err)
		}
		check.OK(t, makes(ctx, d))
		release()
		check.OK(t, c.Revoke())
	})
}

// TestHoldRefuses: the first refusal is the answer, with its path. Then nothing is held.
func TestHoldRefuses(t *testing.T) {
	hides := deny.Must("**/a/b/**").Guard()
	asks := deny.Must("**/a/b/**").Ask("it")
	for name, c := range map[string]struct {
		d    func(t *testing.T) vfs.Dir
		want vfs.Code
		path string
	}{
		"read-only": {func(t *testing.T) vfs.Dir {
			d, err := membrane.ReadOnlyDir(membrane.Guarded(mounts(t).Root(), nil))
			check.OK(t, err)
			return d
		}, vfs.ReadOnly, "m/a/f"},
		"denied":        {func(t *testing.T) vfs.Dir { return membrane.Guarded(mounts(t).Root(), nil, hides) }, vfs.Denied, "m/a/b/f"},
		"denied within": {func(t *testing.T) vfs.Dir { return membrane.Guarded(mounts(t, hides).Root(), nil) }, vfs.Denied, "m/a/b/f"},
		"asked":         {func(t *testing.T) vfs.Dir { return membrane.Guarded(mounts(t).Root(), nil, asks) }, vfs.AskDenied, "m/a/b/f"},
		"asked within":  {func(t *testing.T) vfs.Dir { return membrane.Guarded(mounts(t, asks).Root(), nil) }, vfs.AskDenied, "m/a/b/f"},
		"a mount": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			check.Mount(t, ns, "m/z/f", nil)
			return membrane.Guarded(ns.Root(), nil)
		}, vfs.Busy, "m/f"},
		"what leads": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			check.OK(t, ns.Unmount(t.Context(), ""))
			return membrane.Guarded(ns.Root(), nil)
		}, vfs.ReadOnly, "new"},
		"a read-only mount": {func(t *testing.T) vfs.Dir {
			ns := mounts(t)
			_, d := check.Store(t, check.Sample)
			check.OK(t, ns.Mount("m/a/b", d, namespace.Options{ReadOnly: true}))
			return membrane.Guarded(ns.Root(), nil)
		}, vfs.ReadOnly, "m/a/b/f"},
		"a route": {func(t *testing.T) vfs.Dir {
			d, c := check.Controlled(t, membrane.Guarded(mounts(t).Root(), nil))
			check.OK(t, check.Child(t, c, "m", "a").SetWritable(false))
			return d
		}, vfs.ReadOnly, "m/a/f"},
	} {
		t.Run(name, func(t *testing.T) {
			d, control := check.Controlled(t, c.d(t))
			before := check.Picture(t, d)
			_, _, err := membrane.Hold(t.Context(), d, batch)
			check.Is(t, "hold", err, c.want)
			if !strings.Contains(err.Error(), ": "+c.path) {
				t.Errorf("%v does not name %s", err, c.path)
			}
			if n := membrane.Changing(control.Gate); n != 0 {
				t.Errorf("%d changes are under way", n)
			}
			if after := check.Picture(t, d); after != before {
				t.Errorf("changed to %s", after)
			}
			check.OK(t, control.Revoke())
		})
	}
	_, _, err := membrane.Hold(t.Context(), membrane.Guarded(mounts(t).Root(), nil), []membrane.Op{{Kind: membrane.OpRemove, Path: "../x"}})
	check.Is(t, "a bad path", err, vfs.Invalid)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := membrane.Hold(cancelled, membrane.Guarded(mounts(t).Root(), nil), batch); err != context.Canceled {
		t.Error(err)
	}
}

// TestHoldDoesNotWiden: a batch gets past those who wait for it, and past nothing else.
func TestHoldDoesNotWiden(t *testing.T) {
	ns := mounts(t)
	d, c := check.Controlled(t, membrane.Guarded(ns.Root(), nil))
	other, co := check.Controlled(t, membrane.Guarded(ns.Root(), nil))
	ctx, release := holding(t, d)
	defer release()
	check.OK(t, co.Revoke()) // of another grant: it waits for nobody
	check.Is(t, "another grant", check.Put(ctx, other, "m/a/f", "x"), vfs.Revoked)
	ro, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	check.Is(t, "an attenuation", check.Put(ctx, ro, "m/a/f", "x"), vfs.ReadOnly)
	c.SetReadable(false)
	_, err = check.Names(ctx, d)
	check.Is(t, "reading, which waits for nobody", err, vfs.Denied)
	c.SetReadable(true)
	check.OK(t, check.Child(t, c, "m", "a").SetWritable(false))
	check.Is(t, "a route from now on", check.Put(ctx, d, "m/a/f", "x"), vfs.ReadOnly)
	closed := check.DirAt(t, d, "m")
	check.OK(t, closed.Close())
	check.Is(t, "what was closed", check.Put(ctx, closed, "z/x", "x"), vfs.Stale)
	check.Mount(t, ns, "m/z", nil)
	check.Is(t, "what was mounted over", makes(ctx, d), vfs.ReadOnly) // the route comes first
}

// TestHoldDoesNotWidenWhenShut: the same for a batch whose gate was shut meanwhile.
func TestHoldDoesNotWidenWhenShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := check.Controlled(t, membrane.Guarded(mounts(t).Root(), nil))
		ro, err := membrane.ReadOnlyDir(d)
		check.OK(t, err)
		ctx, release := holding(t, d)
		locked := make(chan error)
		go func() { locked <- c.SetWritable(false) }()
		synctest.Wait()
		check.OK(t, check.Put(ctx, d, "m/a/f", "x"))
		check.Is(t, "an attenuation", check.Put(ctx, ro, "m/a/f", "x"), vfs.ReadOnly)
		check.Is(t, "an attenuation, of a bad name", put2(ctx, ro, ".."), vfs.ReadOnly)
		m := check.DirAt(t, ro, "m")
		check.Is(t, "a rename out of one", m.Rename(ctx, "f", d, "f", vfs.If{}, vfs.If{}), vfs.ReadOnly)
		release()
		check.OK(t, <-locked)
	})
}

// TestHoldReadsWhatMoves: a move in a batch needs the same rights as any move.
func TestHoldReadsWhatMoves(t *testing.T) {
	d, c := check.Controlled(t, membrane.Guarded(mounts(t).Root(), nil))
	c.SetReadable(false)
	for _, op := range batch {
		_, release, err := membrane.Hold(t.Context(), d, []membrane.Op{op})
		want := vfs.Code("")
		if op.Kind == membrane.OpRename {
			want = vfs.Denied
		}
		check.Is(t, op.Kind.String(), err, want)
		if err == nil {
			release()
		}
	}
}

// TestHoldAsksGuards: each guard sees every operation in advance, with paths from its own
// root, and again when it is made.
func TestHoldAsksGuards(t *testing.T) {
	seen := func(into *[]membrane.Op) membrane.Guard {
		return membrane.Guard{Changes: true, Around: func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
			*into = append(*into, op)
			e, err := do(ctx)
			if op.Batch == membrane.Ahead && (e != vfs.Effect{}) {
				t.Errorf("ahead, %v changed %+v", op, e)
			}
			return e, err
		}}
	}
	var outer, inner []membrane.Op
	d := membrane.Guarded(mounts(t, seen(&inner)).Root(), nil, seen(&outer))
	before := check.Picture(t, d)
	ctx, release := holding(t, d)
	want := func(what string, got []membrane.Op, batch membrane.Batch, want ...string) {
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
	want("outer", outer, membrane.Ahead, "replace m/a/f", "remove m/a/b/f", "rename m/f m/z/f", "mkdir new")
	want("inner", inner, membrane.Ahead, "replace a/f", "remove a/b/f", "rename f z/f")
	if now := check.Picture(t, d); now != before {
		t.Errorf("changed to %s", now)
	}
	outer, inner = nil, nil
	check.OK(t, makes(ctx, d))
	want("outer", outer, membrane.InBatch, "replace m/a/f", "remove m/a/b/f", "rename m/f m/z/f", "mkdir new")
	want("inner", inner, membrane.InBatch, "replace a/f", "remove a/b/f", "rename f z/f")
	outer, inner = nil, nil
	check.OK(t, check.Put(ctx, d, "m/a/g", "not asked for"))
	want("outer", outer, membrane.Alone, "replace m/a/g")
	want("inner", inner, membrane.Alone, "replace a/g")
	release()
	outer, inner = nil, nil
	check.OK(t, check.Put(ctx, d, "m/a/f", "alone"))
	want("outer", outer, membrane.Alone, "replace m/a/f")
	want("inner", inner, membrane.Alone, "replace a/f")
}

// TestHoldOfABareStore: for a store without a membrane, a hold is only its context.
func TestHoldOfABareStore(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	ctx, release, err := membrane.Hold(t.Context(), raw, batch)
	check.OK(t, err)
	if ctx != t.Context() {
		t.Error("another context")
	}
	release()
}

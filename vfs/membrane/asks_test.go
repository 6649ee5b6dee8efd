package membrane_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// approving is a Change whose approvals decide gives.
type approving struct {
	op     membrane.Op
	why    []string
	decide func(op membrane.Op, why []string, s vfs.Staged) error
}

func (a *approving) Asks(why string) error {
	a.why = append(a.why, why)
	return nil
}

func (a *approving) Stands() bool { return false }

func (a *approving) Ready(ctx context.Context, s vfs.Staged) (func() error, error) {
	if len(a.why) == 0 {
		return nil, nil
	}
	err := vfs.Probe(ctx, s.Grows)
	if err != nil {
		return nil, err
	}
	if late := vfs.Aside(ctx, func() { err = a.decide(a.op, a.why, s) }); err == nil {
		err = late
	}
	return nil, err
}

// approves is a guard whose changes are approved by decide.
func approves(decide func(op membrane.Op, why []string, s vfs.Staged) error) membrane.Guard {
	return membrane.Guard{Changes: true, Around: func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		call := vfs.CallOf(ctx)
		call.OnChange(&approving{op: op, decide: decide})
		return do(vfs.WithCall(ctx, call))
	}}
}

// asked is a sample mounted at m, which asks about everything in it, as a guest has it. inner are more guards of the mount.
func asked(t testing.TB, decide func(membrane.Op, []string, vfs.Staged) error, inner ...membrane.Guard) (vfs.Dir, *membrane.Control, vfs.Dir) {
	t.Helper()
	_, raw := check.Store(t, check.Sample)
	ns := namespace.New()
	check.OK(t, ns.Mount("m", raw, namespace.Options{Guards: append(inner, deny.Must("**").Ask("m"))}))
	check.Mount(t, ns, "other", vfstest.Tree{"f": {Data: "other"}})
	d, c := check.Controlled(t, membrane.Guarded(ns.Root(), nil, approves(decide)))
	return d, c, raw
}

// TestAskedRename: a move that needs an approval replaces nothing unless it says what, as any other. Nobody is asked then.
func TestAskedRename(t *testing.T) {
	d, _, raw := asked(t, func(membrane.Op, []string, vfs.Staged) error {
		t.Error("somebody was asked")
		return nil
	})
	before := check.Picture(t, raw)
	m := check.DirAt(t, d, "m")
	check.Is(t, "a move over a file", m.Rename(t.Context(), "f", check.DirAt(t, d, "m/a"), "f", vfs.If{}, vfs.If{}), vfs.Exists)
	check.Is(t, "a move over a directory", m.Rename(t.Context(), "f", m, "z", vfs.If{}, vfs.If{}), vfs.Exists)
	if now := check.Picture(t, raw); now != before {
		t.Errorf("there is %s, and was %s", now, before)
	}
}

// TestAskedOnce: a change waits for one approval, of what is there and what is written.
func TestAskedOnce(t *testing.T) {
	version := func(data string) vfs.Version { return sha256.Sum256([]byte(data)) }
	is := func(data string) vfs.If { return vfs.If{Is: version(data)} }
	absent := vfs.If{Absent: true}
	for name, c := range map[string]struct {
		do   func(ctx context.Context, d vfs.Dir, f vfs.File) error
		want vfs.Bound
		data string // of the whole file
	}{
		"replace": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return check.Put(ctx, d, "f", "new") }, vfs.Bound{Found: is("content")}, "new"},
		"put":     {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return check.Put(ctx, d, "n", "new") }, vfs.Bound{Found: absent}, "new"},
		"replaceFile": {func(ctx context.Context, _ vfs.Dir, f vfs.File) error {
			_, err := f.Replace(ctx, strings.NewReader("new"), vfs.If{})
			return err
		}, vfs.Bound{Found: is("content")}, "new"},
		"a condition": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			_, err := d.Replace(ctx, "f", strings.NewReader("new"), is("content"))
			return err
		}, vfs.Bound{Found: is("content")}, "new"},
		"install": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			_, err := vfs.Install(ctx, d, "f", strings.NewReader("new"), true, vfs.If{})
			return err
		}, vfs.Bound{Found: is("content"), Exec: true}, "new"},
		"write": {func(ctx context.Context, _ vfs.Dir, f vfs.File) error {
			_, err := f.WriteAt(ctx, []byte("x"), 3, vfs.If{})
			return err
		}, vfs.Bound{Found: is("content"), Offset: 3, Data: []byte("x")}, ""},
		"append": {func(ctx context.Context, _ vfs.Dir, f vfs.File) error {
			_, err := vfs.Append(ctx, f, []byte("x"), vfs.If{})
			return err
		}, vfs.Bound{Found: is("content"), Data: []byte("x")}, ""},
		"truncate":    {func(ctx context.Context, _ vfs.Dir, f vfs.File) error { return f.Truncate(ctx, 2, vfs.If{}) }, vfs.Bound{Found: is("content"), Offset: 2}, ""},
		"create":      {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { _, err := d.Create(ctx, "n"); return err }, vfs.Bound{Found: absent}, ""},
		"mkdir":       {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { _, err := d.Mkdir(ctx, "n"); return err }, vfs.Bound{Found: absent}, ""},
		"symlink":     {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return vfs.Symlink(ctx, d, "n", "text") }, vfs.Bound{Found: absent, Data: []byte("text")}, ""},
		"remove":      {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return d.Remove(ctx, "f", vfs.If{}) }, vfs.Bound{Found: is("content")}, ""},
		"remove link": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return d.Remove(ctx, "l", vfs.If{}) }, vfs.Bound{Found: vfs.If{NoFile: true}}, ""},
		"rename": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "f", d, "n", vfs.If{}, vfs.If{})
		}, vfs.Bound{Found: is("content"), FoundTo: absent}, ""},
		"rename over": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "f", check.DirAt(t, d, "a"), "f", vfs.If{}, is("below"))
		}, vfs.Bound{Found: is("content"), FoundTo: is("below")}, ""},
		"rename dir": {func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "a", d, "n", vfs.If{}, vfs.If{})
		}, vfs.Bound{FoundTo: absent}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			times, before := 0, ""
			var d, raw vfs.Dir
			d, _, raw = asked(t, func(op membrane.Op, why []string, s vfs.Staged) error {
				times++
				b := s.Bound
				if b.Found != c.want.Found || b.FoundTo != c.want.FoundTo || b.Exec != c.want.Exec || b.Offset != c.want.Offset || string(b.Data) != string(c.want.Data) {
					t.Errorf("the approval is bound to %+v", *b)
				}
				if c.data != "" && s.Content.Version() != version(c.data) || c.data == "" && s.Content != nil {
					t.Errorf("staged: %v", s.Content)
				}
				if !slices.Contains(why, "m: **") || !strings.HasPrefix(op.Path, "m/") {
					t.Errorf("asked about %+v because of %q", op, why)
				}
				if now := check.Picture(t, raw); now != before {
					t.Errorf("before the decision there is %s", now)
				}
				return nil
			})
			m := check.DirAt(t, d, "m")
			f := check.FileAt(t, m, "f")
			before = check.Picture(t, raw)
			check.OK(t, c.do(t.Context(), m, f))
			if times != 1 {
				t.Errorf("asked %d times", times)
			}
			if check.Picture(t, raw) == before {
				t.Error("nothing has changed")
			}
		})
	}
}

// TestAskedLast: nobody is asked about what is refused anyway.
func TestAskedLast(t *testing.T) {
	for name, c := range map[string]struct {
		guard membrane.Guard
		make  func(*testing.T, vfs.Dir) vfs.Dir
		cond  vfs.If
		want  vfs.Code
	}{
		"read-only":   {make: func(t *testing.T, d vfs.Dir) vfs.Dir { d, err := membrane.ReadOnlyDir(d); check.OK(t, err); return d }, want: vfs.ReadOnly},
		"withheld":    {guard: deny.Must("f").Guard(), want: vfs.Denied},
		"a condition": {cond: vfs.If{Is: vfs.Version{1}}, want: vfs.Conflict},
		"a quota":     {guard: membrane.Guard{Meter: check.NewMeter(meter.Limits{meter.StoredBytes: 3})}, want: vfs.Quota},
	} {
		d, _, raw := asked(t, func(op membrane.Op, _ []string, _ vfs.Staged) error {
			t.Errorf("%s: asked about %+v", name, op)
			return nil
		}, c.guard)
		m := check.DirAt(t, d, "m")
		if c.make != nil {
			m = c.make(t, m)
		}
		before := check.Picture(t, raw)
		_, err := m.Replace(t.Context(), "f", strings.NewReader("something longer"), c.cond)
		check.Is(t, name, err, c.want)
		if check.Picture(t, raw) != before {
			t.Errorf("%s: it has changed", name)
		}
	}
}

// TestChangedWhileAsked: what was approved is not made of something else.
func TestChangedWhileAsked(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, d vfs.Dir, f vfs.File) error{
		"replace": func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return check.Put(ctx, d, "f", "new") },
		"put":     func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return check.Put(ctx, d, "n", "new") },
		"write": func(ctx context.Context, _ vfs.Dir, f vfs.File) error {
			_, err := f.WriteAt(ctx, []byte("x"), 0, vfs.If{})
			return err
		},
		"remove":     func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return d.Remove(ctx, "f", vfs.If{}) },
		"remove dir": func(ctx context.Context, d vfs.Dir, _ vfs.File) error { return d.Remove(ctx, "z", vfs.If{}) },
		"rename": func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "f", d, "g", vfs.If{}, vfs.If{})
		},
		"rename over": func(ctx context.Context, d vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "f", d, "n", vfs.If{}, vfs.If{})
		},
	} {
		var d, raw vfs.Dir
		d, _, raw = asked(t, func(membrane.Op, []string, vfs.Staged) error {
			check.OK(t, check.Put(t.Context(), raw, "f", "changed"))
			check.OK(t, check.Put(t.Context(), raw, "n", "appeared"))
			check.OK(t, raw.Remove(t.Context(), "z", vfs.If{}))
			return check.Put(t.Context(), raw, "z", "a file")
		})
		m := check.DirAt(t, d, "m")
		check.Is(t, name, do(t.Context(), m, check.FileAt(t, m, "f")), vfs.Conflict)
		for path, want := range map[string]string{"f": "changed", "n": "appeared", "z": "a file"} {
			if got := check.Read(t, raw, path); got != want {
				t.Errorf("%s: %s is %q", name, path, got)
			}
		}
	}
}

// TestAskedBeside: a guard that makes others ask, and the one that can be asked, may stand around one tree.
func TestAskedBeside(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	times := 0
	guard := approves(func(membrane.Op, []string, vfs.Staged) error {
		times++
		return nil
	})
	d := membrane.Guarded(raw, nil, guard, deny.Must("**").Ask("it"), membrane.Guard{Bulkhead: membrane.NewBulkhead(1)})
	check.OK(t, check.Put(t.Context(), d, "f", "new"))
	_, err := d.Mkdir(t.Context(), "n")
	check.OK(t, err)
	if times != 2 {
		t.Errorf("asked %d times", times)
	}
	_, _, err = membrane.Hold(t.Context(), d, []membrane.Op{{Kind: membrane.OpReplace, Path: "f"}})
	check.Is(t, "a batch", err, vfs.AskDenied)
	none := membrane.Guarded(raw, nil, check.Around(func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) { return do(ctx) }), deny.Must("**").Ask("it"))
	check.Is(t, "nobody to ask", check.Put(t.Context(), none, "f", "newer"), vfs.AskDenied)
}

// TestAskedInParts: nobody can be asked about a part of a change that needs two grants, or of a batch.
func TestAskedInParts(t *testing.T) {
	none := approves(func(op membrane.Op, _ []string, _ vfs.Staged) error {
		t.Errorf("asked about %+v", op)
		return nil
	})
	_, raw := check.Store(t, check.Sample)
	ns := namespace.New()
	check.OK(t, ns.Mount("m", raw, namespace.Options{Guards: []membrane.Guard{deny.Must("**").Ask("m")}}))
	check.Mount(t, ns, "other", vfstest.Tree{"f": {Data: "other"}})
	d, grant := membrane.Guarded(ns.Root(), nil, none), membrane.Guarded(ns.Root(), nil, none)
	before := check.Picture(t, raw)
	m, other := check.DirAt(t, d, "m"), check.DirAt(t, d, "other")
	for _, name := range []string{"m", "other"} {
		to := check.DirAt(t, grant, name)
		check.Is(t, "to another grant", m.Rename(t.Context(), "f", to, "g", vfs.If{}, vfs.If{}), vfs.AskDenied)
	}
	check.Is(t, "from another grant", other.Rename(t.Context(), "f", check.DirAt(t, grant, "m"), "g", vfs.If{}, vfs.If{}), vfs.AskDenied)
	_, _, err := membrane.Hold(t.Context(), d, []membrane.Op{{Kind: membrane.OpReplace, Path: "m/f"}})
	check.Is(t, "a batch", err, vfs.AskDenied)
	if check.Picture(t, raw) != before {
		t.Error("it has changed")
	}
}

// TestWaiterHoldsNothing: while calls wait for a human, others of the grant go on in the same mount, directory and file,
// however many wait. A revoke and an unmount end the waiting.
func TestWaiterHoldsNothing(t *testing.T) {
	for name, end := range map[string]func(*membrane.Control, *namespace.Namespace) error{
		"revoke":  func(c *membrane.Control, _ *namespace.Namespace) error { return c.Revoke() },
		"unmount": func(_ *membrane.Control, ns *namespace.Namespace) error { return ns.Unmount(context.Background(), "m") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { waiters(t, end) })
		})
	}
}

func waiters(t *testing.T, end func(*membrane.Control, *namespace.Namespace) error) {
	_, raw := check.Store(t, check.Sample)
	ns, b := namespace.New(), membrane.NewBulkhead(2)
	check.OK(t, ns.Mount("m", membrane.Guarded(raw, nil, membrane.Guard{Bulkhead: b}, deny.Must("z/**", "f").Ask("m")), namespace.Options{}))
	var gone sync.Map
	d, c := check.Controlled(t, membrane.Guarded(ns.Root(), nil, membrane.Guard{Changes: true, Around: func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		call := vfs.CallOf(ctx)
		call.OnChange(waiting{op, &gone})
		return do(vfs.WithCall(ctx, call))
	}}))
	m := check.DirAt(t, d, "m")
	grant := meter.NewHost(nil).Grant("guest", nil)
	var calls sync.WaitGroup
	for i := range 64 {
		calls.Go(func() {
			ctx, turn, err := grant.Begin(t.Context(), meter.Work)
			if err != nil {
				t.Error(err)
				return
			}
			defer turn.End()
			switch i % 4 {
			case 0:
				_, err = check.DirAt(t, m, "z").Mkdir(ctx, "n")
			case 1:
				err = check.Put(ctx, m, "z/p", "new")
			case 2:
				_, err = check.FileAt(t, m, "f").WriteAt(ctx, []byte("x"), 0, vfs.If{})
			case 3:
				err = m.Remove(ctx, "f", vfs.If{})
			}
			if code := vfs.CodeOf(err); code != vfs.Revoked && code != vfs.Stale {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	synctest.Wait()
	if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 {
		t.Errorf("in the mount's bulkhead: %+v", s)
	}
	if n := grant.Used(meter.Waits); n != 64 {
		t.Errorf("%d calls wait", n)
	}
	ctx, turn, err := grant.Begin(t.Context(), meter.Work)
	check.OK(t, err)
	check.OK(t, check.Put(ctx, m, "honest", "new"))
	if got := check.Read(t, m, "f"); got != "content" {
		t.Errorf("f is %q", got)
	}
	turn.End()
	begun := time.Now()
	check.OK(t, end(c, ns))
	calls.Wait()
	if took := time.Since(begun); took > 0 {
		t.Errorf("the end took %v", took)
	}
	synctest.Wait() // those that were answered before they got their slot again clean up
	if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 || grant.Used(meter.Waits) != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// waiting is a Change whose approval never comes.
type waiting struct {
	op   membrane.Op
	gone *sync.Map
}

func (waiting) Asks(string) error { return nil }

func (waiting) Stands() bool { return false }

func (w waiting) Ready(ctx context.Context, s vfs.Staged) (func() error, error) {
	if s.Bound == nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer w.op.OnRevoke(cancel)()
	var err error
	late := vfs.Aside(ctx, func() {
		<-ctx.Done()
		err = context.Cause(ctx)
	})
	if err == nil {
		err = late
	}
	return nil, err
}

// TestApprovedInAHungStore: calls whose approval comes when the store does not answer any more are told so within a second or two, and
// change nothing, also when it answers again.
func TestApprovedInAHungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, raw := check.Store(t, check.Sample)
		b := membrane.NewBulkhead(2)
		store := membrane.Guarded(raw, nil, membrane.Guard{Bulkhead: b}, deny.Must("z/**", "f").Ask("m"))
		ns := namespace.New()
		check.OK(t, ns.Mount("m", store, namespace.Options{}))
		decided := make(chan struct{})
		d := membrane.Guarded(ns.Root(), nil, membrane.Guard{Changes: true, Around: func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
			call := vfs.CallOf(ctx)
			call.OnChange(&asksAside{decided: decided})
			return do(vfs.WithCall(ctx, call))
		}})
		m := check.DirAt(t, d, "m")
		before := check.Picture(t, raw)
		grant := meter.NewHost(nil).Grant("guest", nil)
		var calls sync.WaitGroup
		for i := range 4 {
			calls.Go(func() {
				ctx, turn, err := grant.Begin(t.Context(), meter.Work)
				check.OK(t, err)
				defer turn.End()
				switch i {
				case 0:
					_, err = check.DirAt(t, m, "z").Mkdir(ctx, "n")
				case 1:
					err = check.Put(ctx, m, "z/p", "new")
				case 2:
					_, err = check.FileAt(t, m, "f").WriteAt(ctx, []byte("x"), 0, vfs.If{})
				case 3:
					err = m.Remove(ctx, "f", vfs.If{})
				}
				check.Is(t, fmt.Sprintf("call %d", i), err, vfs.Busy)
			})
		}
		synctest.Wait()
		hang := make(chan struct{})
		var hung sync.WaitGroup
		for range 2 {
			hung.Go(func() { _ = b.Run(t.Context(), func(context.Context) error { <-hang; return nil }) })
		}
		synctest.Wait()
		begun := time.Now()
		close(decided)
		calls.Wait()
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("they were told after %v", took)
		}
		close(hang)
		hung.Wait()
		synctest.Wait()
		if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 || grant.Used(meter.Waits) != 0 {
			t.Errorf("at the end: %+v", s)
		}
		if after := check.Picture(t, raw); after != before {
			t.Errorf("%s\nrather than\n%s", after, before)
		}
	})
}

// asksAside is a Change whose approval comes when decided is closed.
type asksAside struct{ decided chan struct{} }

func (*asksAside) Asks(string) error { return nil }

func (*asksAside) Stands() bool { return false }

func (a *asksAside) Ready(ctx context.Context, s vfs.Staged) (func() error, error) {
	return nil, vfs.Aside(ctx, func() { <-a.decided })
}

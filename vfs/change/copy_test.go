package change_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/step"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// filled returns a world with the files of a copy.
func filled(t *testing.T, guards ...membrane.Guard) vfs.Dir {
	t.Helper()
	raw := world(t)
	_, err := change.Do(t.Context(), raw, []step.Step{put("a", "a"), {Verb: step.Mkdir, Path: "d"}, put("d/x", "x"), put("d/.env", "secret"),
		{Verb: step.Mkdir, Path: "d/e"}, put("d/e/y", "y"), put("m/y", "y")}, change.Options{})
	check.OK(t, err)
	return membrane.Guarded(raw, nil, guards...)
}

func copyIn(ctx context.Context, d vfs.Dir, from, to string, c vfs.If) error {
	src, name, release, err := vfs.WalkParent(ctx, d, from)
	if err != nil {
		return err
	}
	defer release()
	dst, newName, release, err := vfs.WalkParent(ctx, d, to)
	if err != nil {
		return err
	}
	defer release()
	_, err = change.Copy(ctx, src, name, dst, newName, vfs.If{}, c)
	return err
}

// TestCopyWithheld: what policy withholds is left out and not betrayed; where it may not be made, nothing is.
func TestCopyWithheld(t *testing.T) {
	ctx := t.Context()
	d := filled(t, deny.Must("**/.env", "m/kept/**").Guard())
	check.OK(t, copyIn(ctx, d, "d", "m/d", vfs.If{}))
	check.Is(t, "what is withheld, by name", copyIn(ctx, d, "d/.env", "m/env", vfs.If{}), vfs.Denied)
	check.Is(t, "what is not there, by a withheld name", copyIn(ctx, d, "m/.env", "m/env", vfs.If{}), vfs.Denied)
	check.Is(t, "to a name that is withheld", copyIn(ctx, d, "a", "m/.env", vfs.If{}), vfs.Denied)
	check.Is(t, "to where what is below is withheld", copyIn(ctx, d, "d", "m/kept", vfs.If{}), vfs.Denied)
	if got := tree(t, ctx, d, ""); got != "a=a d/ d/e/ d/e/y=y d/x=x m/ m/d/ m/d/e/ m/d/e/y=y m/d/x=x m/y=y " {
		t.Errorf("there is %q", got)
	}
}

// TestCopyRights copies without one of the rights, and while it is locked.
func TestCopyRights(t *testing.T) {
	ctx := t.Context()
	all := filled(t)
	before := tree(t, ctx, all, "")
	for _, c := range []struct {
		name, from, to string
		keep           membrane.Rights
		is             vfs.If
		code           vfs.Code
	}{
		{"a file without read", "a", "b", membrane.AllRights &^ membrane.Read, vfs.If{}, vfs.Denied},
		{"a file without write", "a", "b", membrane.AllRights &^ membrane.Write, vfs.If{}, vfs.ReadOnly},
		{"a directory without list", "d", "b", membrane.AllRights &^ membrane.List, vfs.If{}, vfs.Denied},
		{"over a file without delete", "a", "m/y", membrane.AllRights &^ membrane.Delete, vfs.If{Over: true}, vfs.ReadOnly},
		{"a file with no other right", "a", "b", membrane.Read | membrane.Write, vfs.If{}, ""},
		{"a directory with no other right", "d", "q", membrane.Read | membrane.Write | membrane.List, vfs.If{}, ""},
		{"over a version with no other right", "a", "m/y", membrane.Read | membrane.Write, version("y"), ""},
	} {
		n, err := membrane.Narrow(all, c.keep)
		check.OK(t, err)
		check.Is(t, c.name, copyIn(ctx, n.(vfs.Dir), c.from, c.to, c.is), c.code)
		n.Close()
		if got := tree(t, ctx, all, ""); (got == before) != (c.code != "") {
			t.Errorf("%s: there is %q", c.name, got)
		}
		before = tree(t, ctx, all, "")
	}
	locked, control := check.Controlled(t, all)
	check.OK(t, control.SetWritable(false))
	check.Is(t, "locked", copyIn(ctx, locked, "a", "c", vfs.If{}), vfs.ReadOnly)
	check.Is(t, "a directory, locked", copyIn(ctx, locked, "d", "c", vfs.If{}), vfs.ReadOnly)
	check.OK(t, control.Revoke())
	check.Is(t, "revoked", copyIn(ctx, locked, "a", "c", vfs.If{}), vfs.Revoked)
}

// TestCopyInto: a directory is not copied into itself.
func TestCopyInto(t *testing.T) {
	ctx := t.Context()
	d := filled(t)
	before := tree(t, ctx, d, "")
	for _, to := range []string{"d/d", "d/e/d", "d/e/e"} {
		check.Is(t, "a copy to "+to, copyIn(ctx, d, "d", to, vfs.If{}), vfs.Invalid)
	}
	if got := tree(t, ctx, d, ""); got != before {
		t.Errorf("there is %q", got)
	}
	check.OK(t, copyIn(ctx, d, "d", "d2", vfs.If{})) // whose name only begins like it
	check.OK(t, copyIn(ctx, d, "d/e", "d/e2", vfs.If{}))
}

// TestCopyStops stops a copy at each of its steps, by a revoke, a lock, or a full allowance. Nothing is left, and what was counted is given back.
func TestCopyStops(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.StageDir, faultfs.Mkdir, faultfs.Install, faultfs.Place} {
		for _, how := range []string{"revoke", "lock"} {
			plan := &faultfs.Plan{}
			m, raw := check.Store(t, vfstest.Tree{"d/x": {Data: "x"}, "d/e/y": {Data: "y"}})
			counts := check.NewMeter(meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 100})
			d, control := check.Controlled(t, membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Meter: counts}))
			before := tree(t, t.Context(), raw, "")
			bytes, nodes := m.Usage()
			pause := plan.Pause(op, faultfs.Before, 1)
			done := make(chan error, 1)
			go func() { done <- copyIn(t.Context(), d, "d", "q", vfs.If{}) }()
			<-pause.Reached()
			want := vfs.Revoked
			if how == "revoke" {
				check.OK(t, control.Revoke())
			} else {
				check.OK(t, control.SetWritable(false))
				want = vfs.ReadOnly
			}
			pause.Resume()
			check.Is(t, fmt.Sprint(how, " at ", op), <-done, want)
			if got := tree(t, t.Context(), raw, ""); got != before {
				t.Errorf("%s at %v: there is %q", how, op, got)
			}
			if b, n := m.Usage(); b != bytes || n != nodes || check.UsageOf(counts) != (check.Usage{Open: check.UsageOf(counts).Open}) {
				t.Errorf("%s at %v: the store has %d bytes and %d nodes, the meter %+v", how, op, b, n, check.UsageOf(counts))
			}
		}
	}
}

// TestCopyBounded: a copy for which a grant has no room leaves nothing, and says what to do.
func TestCopyBounded(t *testing.T) {
	ctx := t.Context()
	for kind, most := range map[meter.Kind]int64{meter.StoredBytes: 2, meter.StoredNodes: 3} {
		m := meter.New("", "the test", meter.Limits{kind: most})
		d := filled(t, membrane.Guard{Meter: m})
		before := tree(t, ctx, d, "")
		check.Is(t, kind.String(), copyIn(ctx, d, "d", "q", vfs.If{}), vfs.Quota)
		if got := tree(t, ctx, d, ""); got != before || m.Used(kind) != 0 {
			t.Errorf("%v: %d are taken, and there is %q", kind, m.Used(kind), got)
		}
	}
}

// TestCopyAsks: a tree of which one file needs an approval is approved as a whole, bound to what is copied, or not copied at all.
func TestCopyAsks(t *testing.T) {
	ctx := t.Context()
	asked := &askedOnce{t: t}
	d := filled(t, membrane.Guard{Around: asked.around, Changes: true}, deny.Must("q/e/*").Ask("the test"))
	before := tree(t, ctx, d, "")
	asked.answer = vfs.AskDenied
	check.Is(t, "refused", copyIn(ctx, d, "d", "q", vfs.If{}), vfs.AskDenied)
	if got := tree(t, ctx, d, ""); got != before {
		t.Errorf("there is %q", got)
	}
	asked.answer = nil
	check.OK(t, copyIn(ctx, d, "d", "q", vfs.If{}))
	if got := check.Read(t, d, "q/e/y"); got != "y" || asked.parts != 5 || asked.times != 2 {
		t.Errorf("%q was copied, of %d parts, after %d questions", got, asked.parts, asked.times)
	}
}

// askedOnce is a guard that answers for changes.
type askedOnce struct {
	t            *testing.T
	answer       error
	parts, times int
}

func (a *askedOnce) around(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
	call := vfs.CallOf(ctx)
	if call.Change == "" {
		call.OnChange(a)
	}
	if op.Kind.Whole() {
		call.Change = op.Kind.String()
	}
	return do(vfs.WithCall(ctx, call))
}

func (a *askedOnce) Asks(string) error { return nil }
func (a *askedOnce) Stands() bool      { return false }
func (a *askedOnce) Ready(ctx context.Context, s vfs.Staged) (func() error, error) {
	b := vfs.CallOf(ctx).Bound
	if b == nil || b.Parts == nil {
		return nil, nil
	}
	a.times++
	a.parts = len(b.Parts)
	for _, p := range b.Parts {
		if p.Kind == vfs.FileKind && p.Version.IsZero() {
			a.t.Errorf("%s is not bound to a version", p.Path)
		}
	}
	return nil, a.answer
}

// TestCopySays which file it was that could not be copied.
func TestCopySays(t *testing.T) {
	d := filled(t, deny.Must("q/e/y").Guard())
	err := copyIn(t.Context(), d, "d", "q", vfs.If{})
	check.Is(t, "the copy", err, vfs.Denied)
	if !strings.Contains(err.Error(), "e/y") {
		t.Errorf("%v does not name e/y", err)
	}
}

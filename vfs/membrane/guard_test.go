package membrane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// TestAround tests a guard that breaks the rules.
func TestAround(t *testing.T) {
	var late check.Do
	var lateDone = make(chan error, 1)
	for name, c := range map[string]struct {
		guard       func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error)
		want        vfs.Code
		lands, once bool
	}{
		"keeps to them": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) { return do(ctx) }, "", true, true},
		"refuses":       {func(context.Context, membrane.Op, check.Do) (vfs.Effect, error) { return vfs.Effect{}, vfs.AskTimeout }, vfs.AskTimeout, false, false},
		"does nothing":  {func(context.Context, membrane.Op, check.Do) (vfs.Effect, error) { return vfs.Effect{}, nil }, vfs.Internal, false, false},
		"twice": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
			do(ctx)
			return do(ctx)
		}, vfs.Internal, true, true},
		"within itself": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
			e, err := do(vfs.OnCommit(ctx, func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
				do(ctx)
				return change()
			}))
			return e, err
		}, "", true, true},
		"late": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
			late = do
			return vfs.Effect{}, nil
		}, vfs.Internal, false, false},
		"meanwhile": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
			begun := make(chan struct{})
			go func() {
				_, err := do(vfs.OnCommit(ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
					close(begun)
					time.Sleep(10 * time.Millisecond)
					return change()
				}))
				lateDone <- err
			}()
			<-begun
			return vfs.Effect{}, vfs.AskDenied
		}, vfs.AskDenied, true, true},
		"swallows": {func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
			do(ctx)
			return vfs.Effect{}, nil
		}, "", true, true},
	} {
		_, raw := check.Store(t, nil)
		d := membrane.Guarded(raw, nil, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
			if op.Kind == membrane.OpAppend {
				return c.guard(ctx, op, do)
			}
			return do(ctx)
		}))
		check.OK(t, check.Put(t.Context(), d, "f", ""))
		_, err := vfs.Append(t.Context(), check.FileAt(t, d, "f"), []byte("x"), vfs.If{})
		check.Is(t, name, err, c.want)
		want := ""
		if c.lands {
			want = "x"
		}
		if got := check.Read(t, raw, "f"); got != want {
			t.Errorf("%s: content %q, want %q", name, got, want)
		}
		if late != nil {
			_, err := late(t.Context())
			check.Is(t, "late", err, vfs.Internal)
			late = nil
			if got := check.Read(t, raw, "f"); got != "" {
				t.Errorf("late: content %q", got)
			}
		}
	}
	check.OK(t, <-lateDone)
}

// TestSwallowedError: a guard cannot turn a failure into success.
func TestSwallowedError(t *testing.T) {
	d, _, _ := check.Guarded(t, check.Sample, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		do(ctx)
		return vfs.Effect{}, nil
	}))
	_, err := d.Lookup(t.Context(), "missing")
	check.Is(t, "lookup", err, vfs.NotFound)
	check.Is(t, "remove", d.Remove(t.Context(), "missing", vfs.If{}), vfs.NotFound)
}

func TestGuardsInOrder(t *testing.T) {
	var log []string
	says := func(name string) membrane.Guard {
		return check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
			if !op.Kind.Changes() {
				return do(ctx)
			}
			log = append(log, fmt.Sprintf("%s before %v %s %s", name, op.Kind, op.Path, op.To))
			e, err := do(ctx)
			log = append(log, fmt.Sprintf("%s after %+v %s", name, e, vfs.CodeOf(err)))
			return e, err
		})
	}
	d, _, _ := check.Guarded(t, check.Sample, says("1"), says("2"))
	check.OK(t, check.Put(t.Context(), d, "a/b/f", "twelve bytes"))
	check.OK(t, d.Rename(t.Context(), "f", check.DirAt(t, d, "a"), "g", vfs.If{}, vfs.If{}))
	check.Is(t, "remove", d.Remove(t.Context(), "a", vfs.If{}), vfs.NotEmpty)
	want := []string{
		"1 before replace a/b/f ", "2 before replace a/b/f ", "2 after {Bytes:-1 Nodes:0} ", "1 after {Bytes:-1 Nodes:0} ",
		"1 before rename f a/g", "2 before rename f a/g", "2 after {Bytes:0 Nodes:0} ", "1 after {Bytes:0 Nodes:0} ",
		"1 before remove a ", "2 before remove a ", "2 after {Bytes:0 Nodes:0} notEmpty", "1 after {Bytes:0 Nodes:0} notEmpty",
	}
	if !slices.Equal(log, want) {
		t.Errorf("the guards saw\n%s", strings.Join(log, "\n"))
	}
}

// TestHidden: enumeration leaves out what is hidden, and naming it is denied before the
// store is asked.
func TestHidden(t *testing.T) {
	hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool {
		return path == "a/secret" || path == "secret" || strings.HasPrefix(path, "a/secret/")
	})}
	_, raw := check.Store(t, vfstest.Tree{"secret": {Data: "x"}, "f": {Data: "x"}, "a/secret/f": {Data: "x"}, "l": {Link: "a/secret/f"}, "m": {Link: "nope/../secret"}, "a/up": {Link: "../secret"}})
	plan := &faultfs.Plan{}
	d := membrane.Guarded(faultfs.New(raw, plan), nil, hides)
	a := check.DirAt(t, d, "a")
	for _, v := range []vfs.Dir{d, a} {
		all, err := check.Names(t.Context(), v)
		check.OK(t, err)
		if slices.Contains(all, "secret") {
			t.Errorf("listed: %v", all)
		}
	}
	for _, path := range []string{"l", "a/up", "a/secret", "a/secret/f", "secret"} {
		_, err := vfs.Walk(t.Context(), d, path)
		check.Is(t, "walk "+path, err, vfs.Denied)
		check.Is(t, "put "+path, check.Put(t.Context(), d, path, "x"), vfs.Denied)
	}
	_, err := vfs.Walk(t.Context(), d, "m")
	check.Is(t, "walk m", err, vfs.NotFound)

	check.Is(t, "remove of what holds nothing else", check.DirAt(t, d, "a").Remove(t.Context(), "up", vfs.If{}), "")
	check.Is(t, "remove of what holds nothing else", d.Remove(t.Context(), "a", vfs.If{}), vfs.Denied)
	check.OK(t, check.Put(t.Context(), d, "a/seen", "x"))
	check.Is(t, "remove of what holds something", d.Remove(t.Context(), "a", vfs.If{}), vfs.NotEmpty)

	f := check.FileAt(t, d, "f")
	defer f.Close()
	plan.Fail(faultfs.Any, faultfs.Before, 0, vfs.Errorf(vfs.Corrupt, "the store was asked"))
	for what, v := range map[string]vfs.Dir{"": d, "a/": a} {
		_, err := v.Lookup(t.Context(), "secret")
		check.Is(t, what+"lookup", err, vfs.Denied)
		_, err = v.Create(t.Context(), "secret")
		check.Is(t, what+"create", err, vfs.Denied)
		_, err = v.Mkdir(t.Context(), "secret")
		check.Is(t, what+"mkdir", err, vfs.Denied)
		_, err = v.Replace(t.Context(), "secret", strings.NewReader("x"), vfs.If{Absent: true})
		check.Is(t, what+"replace", err, vfs.Denied)
		check.Is(t, what+"remove", v.Remove(t.Context(), "secret", vfs.If{}), vfs.Denied)
		check.Is(t, what+"rename", v.Rename(t.Context(), "secret", d, "x", vfs.If{}, vfs.If{}), vfs.Denied)
		check.Is(t, what+"rename to", d.Rename(t.Context(), "f", v, "secret", vfs.If{}, vfs.If{}), vfs.Denied)
	}
}

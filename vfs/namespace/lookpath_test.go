package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// stepwise hides that a Dir is a PathLooker, so that a walk from it looks up every name
// separately.
type stepwise struct{ vfs.Dir }

// walksAlike checks that a walk that may look up several names at once ends like one that
// may not.
func walksAlike(t *testing.T, d vfs.Dir, paths ...string) {
	t.Helper()
	for _, path := range paths {
		for what, walk := range map[string]func(context.Context, vfs.Dir, string) (vfs.Node, error){"Walk": vfs.Walk, "WalkLink": vfs.WalkLink} {
			if got, want := outcome(t, walk, d, path), outcome(t, walk, stepwise{d}, path); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s %s: %v, want %v", what, path, got, want)
			}
		}
	}
}

func outcome(t *testing.T, walk func(context.Context, vfs.Dir, string) (vfs.Node, error), d vfs.Dir, path string) string {
	t.Helper()
	n, err := walk(t.Context(), d, path)
	if err != nil {
		if errors.Is(err, vfs.ErrStepwise) {
			t.Fatalf("a walk answered ErrStepwise: %v", err)
		}
		return fmt.Sprintf("%s: %v", vfs.CodeOf(err), err)
	}
	defer n.Close()
	info, err := n.Stat(t.Context())
	return fmt.Sprintf("%v, %+v, %v", vfs.KindOf(n), info, err)
}

// everyPath returns paths to everything in sample, and to what is not there.
func everyPath() []string {
	all := []string{"a/none", "none/f", "a/none/f", "a/b/f/x", "f/x", "l/x", "a/b/c/none", "up/f", "m/f", "m/b/f", "a/m/x"}
	for path := range check.Sample {
		all = append(all, path)
		for i := range path {
			if path[i] == '/' {
				all = append(all, path[:i])
			}
		}
	}
	return all
}

// A walk asks a store for all names at once, and asks the guards about each of them.
func TestLookPathAsksOnce(t *testing.T) {
	d, _, raw := check.Guarded(t, check.Sample)
	n, err := vfs.LookPath(t.Context(), raw, []string{"a", "b", "c", "f"})
	check.OK(t, err)
	check.OK(t, n.Close())
	n, err = vfs.LookPath(t.Context(), d, []string{"a", "b", "c", "f"})
	check.OK(t, err)
	check.OK(t, n.Close())
	_, err = vfs.LookPath(t.Context(), d, []string{"a", "none", "f"})
	if got, want := vfs.CodeOf(err), vfs.NotFound; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	_, err = vfs.LookPath(t.Context(), stepwise{d}, []string{"a", "b"})
	if got, want := err, vfs.ErrStepwise; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}

	m := check.NewMeter(meter.Limits{})
	counted := membrane.Guarded(raw, nil, membrane.Guard{Meter: m})
	n, err = vfs.Walk(t.Context(), counted, "a/b/c/f")
	check.OK(t, err)
	if n := m.Used(meter.Nodes); n != 1 {
		t.Fatalf("%d open nodes, want 1", n)
	}
	check.OK(t, n.Close())
	if n := m.Used(meter.Nodes); n != 0 {
		t.Fatalf("%d open nodes, want 0", n)
	}
}

func TestLookPathWithheld(t *testing.T) {
	for _, hidden := range []string{"a", "a/b", "a/b/c", "a/b/c/f", "**/f", "**/none", "a/b/**", "l"} {
		d, _, _ := check.Guarded(t, check.Sample, deny.Must(hidden).Guard())
		walksAlike(t, d, everyPath()...)
	}
	d, _, _ := check.Guarded(t, check.Sample, deny.Must("a/b").Guard())
	_, err := vfs.LookPath(t.Context(), d, []string{"a", "b", "c", "f"})
	if got, want := err, vfs.ErrStepwise; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// A guard around lookups sees each of them.
func TestLookPathAround(t *testing.T) {
	var seen []string
	d, _, _ := check.Guarded(t, check.Sample, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		seen = append(seen, op.Kind.String()+" "+op.Path)
		return do(ctx)
	}))
	n, err := vfs.Walk(t.Context(), d, "a/b/c/f")
	check.OK(t, err)
	check.OK(t, n.Close())
	if got, want := strings.Join(seen, ", "), "lookup a, lookup a/b, lookup a/b/c, lookup a/b/c/f"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}

	on := check.Around(func(context.Context, membrane.Op, check.Do) (vfs.Effect, error) { return vfs.Effect{}, vfs.Denied })
	on.On = membrane.MatchPaths(func(path string) bool { return path == "a/b" })
	d, _, _ = check.Guarded(t, check.Sample, on)
	walksAlike(t, d, everyPath()...)
	_, err = vfs.Walk(t.Context(), d, "a/b/c/f")
	if got, want := vfs.CodeOf(err), vfs.Denied; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestLookPathControlled(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		for what, forbid := range map[string]func(*membrane.Control){
			"unreadable": func(c *membrane.Control) { c.SetReadable(false) },
			"locked":     func(c *membrane.Control) { check.OK(t, c.SetWritable(false)) },
			"revoked":    func(c *membrane.Control) { check.OK(t, c.Revoke()) },
		} {
			t.Run(what+" "+strings.Join(names, " "), func(t *testing.T) {
				d, c, _ := check.Guarded(t, check.Sample)
				forbid(check.Child(t, c, names...))
				walksAlike(t, d, everyPath()...)
				through, _ := check.Controlled(t, d)
				walksAlike(t, through, everyPath()...)
			})
		}
	}
	d, c, _ := check.Guarded(t, check.Sample)
	check.OK(t, c.Revoke())
	_, err := vfs.Walk(t.Context(), d, "a/b/c/f")
	if got, want := vfs.CodeOf(err), vfs.Revoked; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	_, err = vfs.Walk(t.Context(), d, "a/none/c")
	if got, want := vfs.CodeOf(err), vfs.Revoked; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// If a right is taken back during the lookup, this is noticed before the answer.
func TestLookPathRevokedMeanwhile(t *testing.T) {
	for _, path := range []string{"a/b/c/f", "a/none"} {
		_, raw := check.Store(t, check.Sample)
		var c *membrane.Control
		d, c := check.Controlled(t, membrane.Guarded(during{raw, func() { check.OK(t, c.Revoke()) }}, nil))
		_, err := vfs.Walk(t.Context(), d, path)
		if got, want := vfs.CodeOf(err), vfs.Revoked; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", path, got, want)
		}
	}
}

// during calls a function while it looks up names.
type during struct {
	vfs.Dir
	do func()
}

func (d during) LookPath(ctx context.Context, names []string) (vfs.Node, error) {
	d.do()
	return vfs.LookPath(ctx, d.Dir, names)
}

func TestLookPathAmongMounts(t *testing.T) {
	ns, _, _, _ := composed(t)
	paths := []string{"a/f", "a/sub/f", "a/sub/hidden", "a/hidden", "a/up", "m/n/f", "m/n", "m/n/hidden", "m/seen", "m/none",
		"deep/er", "deep/er/still", "deep/er/still/f", "deep/er/still/none", "deep/x", "b/file", "b/file/x", "z/f", "l/f", "a/none/f"}
	walksAlike(t, ns, paths...)
	walksAlike(t, membrane.Guarded(ns, nil), paths...)
	walksAlike(t, membrane.Guarded(ns, nil, deny.Must("a/sub", "**/still").Guard()), paths...)

	_, still := check.Store(t, check.Sample)
	bare := check.Compose(t, map[string]vfs.Dir{"deep/er/still": still}).Root()
	walksAlike(t, bare, "deep/er", "deep/er/still", "deep/er/still/a/b/f", "deep/er/still/none", "deep/none/f", "none/f")
	for path, d := range map[string]vfs.Dir{"a/f": ns, "a/sub/f": ns, "deep/er/still/a/b/f": bare} {
		n, err := vfs.LookPath(t.Context(), membrane.Guarded(d, nil), strings.Split(path, "/"))
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		check.OK(t, n.Close())
	}

	whole := namespace.New()
	_, one := check.Store(t, vfstest.Tree{"d/l": {Link: "f"}, "d/f": {Data: "x"}, "d/e/f": {Data: "y"}})
	check.OK(t, whole.Mount("one", one, namespace.Options{NoLinks: true}))
	_, two := check.Store(t, vfstest.Tree{"f": {Data: "two"}})
	held := check.DirAt(t, whole.Root(), "one/d")
	paths = []string{"one/d/l", "one/d/f", "one/d/e/f", "one/d/e/g", "one/d/l/x"}
	walksAlike(t, whole.Root(), paths...)
	check.OK(t, whole.Mount("one/d/e", two, namespace.Options{}))
	walksAlike(t, whole.Root(), paths...)
	walksAlike(t, held, "e/f", "e/g", "l")
	check.OK(t, whole.Unmount(t.Context(), "one"))
	walksAlike(t, whole.Root(), paths...)
	walksAlike(t, held, "e/f", "e/g", "l/x")
}

// A bad name is invalid wherever it is looked up, and no guard sees it. Only a gate
// answers first.
func TestLookupBadName(t *testing.T) {
	guard := check.Around(func(_ context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		t.Errorf("a guard saw %s %q", op.Kind, op.Path)
		return vfs.Effect{}, vfs.Denied
	})
	hiding, c, raw := check.Guarded(t, check.Sample, deny.Must("**").Guard())
	for what, d := range map[string]vfs.Dir{
		"store":                raw,
		"view":                 membrane.Guarded(raw, nil),
		"view that hides":      hiding,
		"view that is guarded": membrane.Guarded(raw, nil, guard),
		"mount":                check.Compose(t, map[string]vfs.Dir{"": raw, "a/b": raw}).Root(),
		"place without a tree": check.Compose(t, map[string]vfs.Dir{"a/b": raw}).Root(),
	} {
		for _, name := range []string{"", ".", "..", "a/b", "a/../f", "\x00", strings.Repeat("x", vfs.MaxName+1), strings.Repeat("x", vfs.MaxPath+1), strings.Repeat("x/", vfs.MaxDepth+1)} {
			_, err := d.Lookup(t.Context(), name)
			if got, want := vfs.CodeOf(err), vfs.Invalid; !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %q: %v, want %v", what, name, got, want)
			}
		}
	}
	check.OK(t, c.Revoke())
	_, err := hiding.Lookup(t.Context(), "..")
	if got, want := vfs.CodeOf(err), vfs.Revoked; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

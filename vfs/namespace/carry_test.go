package namespace_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// cargo is what is moved from tree to tree.
var cargo = vfstest.Tree{
	"d/f": {Data: "a file"}, "d/x": {Data: "#!", Exec: true}, "d/e/g": {Data: strings.Repeat("long", 50_000)}, "d/e/empty": {},
	"d/hollow": {Dir: true}, "d/l": {Link: "../beyond"}, "stays": {Data: "stays"},
}

// two trees of one namespace, at a and b, each with its faults.
type twoTrees struct {
	ns     *namespace.Namespace
	root   vfs.Dir // the namespace's, guarded
	a, b   vfs.Dir // raw
	pa, pb *faultfs.Plan
	stores [2]*memory.Store
}

// stored is how much both trees hold.
func (w *twoTrees) stored() (e vfs.Effect) {
	for _, s := range w.stores {
		bytes, nodes := s.Usage()
		e.Bytes += bytes
		e.Nodes += nodes
	}
	return e
}

func trees(t testing.TB, from, to vfstest.Tree, guards ...membrane.Guard) *twoTrees {
	t.Helper()
	w := &twoTrees{ns: namespace.New(), pa: &faultfs.Plan{}, pb: &faultfs.Plan{}}
	var a, b *memory.Store
	a, w.a = check.Store(t, from)
	b, w.b = check.Store(t, to)
	w.stores = [2]*memory.Store{a, b}
	check.OK(t, w.ns.Mount("a", faultfs.New(a.Root(), w.pa), namespace.Options{}))
	check.OK(t, w.ns.Mount("b", faultfs.New(b.Root(), w.pb), namespace.Options{}))
	w.root = membrane.Guarded(w.ns.Root(), nil, guards...)
	return w
}

func (w *twoTrees) move(t testing.TB, name, newName string, from, to vfs.If) error {
	t.Helper()
	a, b := check.DirAt(t, w.root, "a"), check.DirAt(t, w.root, "b")
	defer a.Close()
	defer b.Close()
	return a.Rename(t.Context(), name, b, newName, from, to)
}

// nodes describes a tree: the files' contents, executable bits, and targets of links.
func nodes(t testing.TB, d vfs.Dir) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range check.Naive(t, d, "**") {
		n, err := vfs.WalkLink(t.Context(), d, path)
		check.OK(t, err)
		info, err := n.Stat(t.Context())
		check.OK(t, err)
		all[path] = fmt.Sprint(info.Kind, " ", info.Exec)
		switch n := n.(type) {
		case vfs.File:
			all[path] += " " + check.Read(t, d, path)
		case vfs.Link:
			text, err := n.Target(t.Context())
			check.OK(t, err)
			all[path] += " " + text
		}
	}
	return all
}

func below(all map[string]string, dir string) map[string]string {
	some := map[string]string{}
	for path, what := range all {
		if rest, ok := strings.CutPrefix(path+"/", dir+"/"); ok {
			some[strings.TrimSuffix(rest, "/")] = what
		}
	}
	return some
}

func TestMoveBetweenTrees(t *testing.T) {
	w := trees(t, cargo, vfstest.Tree{"z": {Dir: true}})
	before := nodes(t, w.a)
	quota := check.NewMeter(meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 100})
	w.root = membrane.Guarded(w.ns.Root(), nil, membrane.Guard{Meter: quota})
	check.OK(t, check.Put(t.Context(), w.root, "a/mine", strings.Repeat("x", 40)))
	used := check.UsageOf(quota)
	check.OK(t, w.move(t, "mine", "yours", vfs.If{}, vfs.If{}))
	if now := check.UsageOf(quota); now != used {
		t.Errorf("the allowance used was %+v, is %+v", used, now)
	}
	check.OK(t, w.move(t, "d", "d2", vfs.If{}, vfs.If{}))
	if got, want := below(nodes(t, w.b), "d2"), below(before, "d"); !maps.Equal(got, want) {
		t.Errorf("arrived as %v, want %v", got, want)
	}
	if got := check.Naive(t, w.a, "**"); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("left behind: %v", got)
	}
	check.Is(t, "a link that would lead out of the mount", check.DirAt(t, w.root, "b/d2").Rename(t.Context(), "l", check.DirAt(t, w.root, "a"), "l", vfs.If{}, vfs.If{}), vfs.Outside)
	in, err := check.DirAt(t, w.root, "a").Mkdir(t.Context(), "in")
	check.OK(t, err)
	in.Close()
	check.OK(t, check.DirAt(t, w.root, "b/d2").Rename(t.Context(), "l", check.DirAt(t, w.root, "a/in"), "l", vfs.If{}, vfs.If{}))
	check.OK(t, check.DirAt(t, w.root, "b/d2").Rename(t.Context(), "x", check.DirAt(t, w.root, "a"), "x", vfs.If{}, vfs.If{}))
	back := nodes(t, w.a)
	if back["in/l"] != before["d/l"] || back["x"] != before["d/x"] {
		t.Errorf("came back as %v", back)
	}
}

func version(t testing.TB, d vfs.Dir, path string) vfs.Version {
	t.Helper()
	f := check.FileAt(t, d, path)
	defer f.Close()
	v, err := vfs.VersionOf(t.Context(), f)
	check.OK(t, err)
	return v
}

// TestMoveBetweenTreesConditions: the answers are those of a Rename within a store, and
// nothing changes.
func TestMoveBetweenTreesConditions(t *testing.T) {
	there := vfstest.Tree{"f": {Data: "there"}, "same": {Data: "stays"}, "d/f": {Data: "x"}, "l": {Link: "f"}}
	w := trees(t, cargo, there)
	a, b := nodes(t, w.a), nodes(t, w.b)
	is1, is2, same := vfs.If{Is: version(t, w.a, "stays")}, vfs.If{Is: version(t, w.b, "f")}, vfs.If{Is: version(t, w.b, "same")}
	for what, c := range map[string]struct {
		err  error
		want vfs.Code
	}{
		"nothing":                      {w.move(t, "none", "n", vfs.If{}, vfs.If{}), vfs.NotFound},
		"nothing of a version":         {w.move(t, "none", "n", is1, vfs.If{}), vfs.Conflict},
		"another version":              {w.move(t, "stays", "n", is2, vfs.If{}), vfs.Conflict},
		"absent":                       {w.move(t, "stays", "n", vfs.If{Absent: true}, vfs.If{}), vfs.Conflict},
		"a directory with a version":   {w.move(t, "d", "n", is1, vfs.If{}), vfs.Invalid},
		"to a file":                    {w.move(t, "stays", "f", vfs.If{}, vfs.If{}), vfs.Exists},
		"to a file, if absent":         {w.move(t, "stays", "f", vfs.If{}, vfs.If{Absent: true}), vfs.Exists},
		"to a directory":               {w.move(t, "stays", "d", vfs.If{}, vfs.If{}), vfs.Exists},
		"a directory to one":           {w.move(t, "d", "d", vfs.If{}, vfs.If{}), vfs.Exists},
		"to a link":                    {w.move(t, "stays", "l", vfs.If{}, vfs.If{}), vfs.Exists},
		"over another version":         {w.move(t, "stays", "f", vfs.If{}, is1), vfs.Conflict},
		"over nothing":                 {w.move(t, "stays", "n", vfs.If{}, is2), vfs.Conflict},
		"over a directory":             {w.move(t, "stays", "d", vfs.If{}, is2), vfs.Exists},
		"a directory over a file":      {w.move(t, "d", "f", vfs.If{}, is2), vfs.Exists},
		"over what is the same":        {w.move(t, "stays", "same", vfs.If{}, same), vfs.Exists},
		"to a bad name":                {w.move(t, "stays", "a\nb", vfs.If{}, vfs.If{}), vfs.Invalid},
		"from a bad name":              {w.move(t, "..", "n", vfs.If{}, vfs.If{}), vfs.Invalid},
		"from a bad name to a bad one": {w.move(t, "a/b", "..", vfs.If{}, vfs.If{}), vfs.Invalid},
	} {
		check.Is(t, what, c.err, c.want)
	}
	if now := nodes(t, w.a); !maps.Equal(now, a) {
		t.Errorf("the source became %v", now)
	}
	if now := nodes(t, w.b); !maps.Equal(now, b) {
		t.Errorf("the target became %v", now)
	}
	check.OK(t, w.move(t, "stays", "f", is1, is2))
	if got := check.Read(t, w.b, "f"); got != "stays" {
		t.Error(got)
	}
	check.OK(t, w.move(t, "d", "fresh", vfs.If{}, vfs.If{Absent: true}))
}

// TestMoveOfOneStoreMountedTwice: a file is never moved over itself, nor a directory into
// itself.
func TestMoveOfOneStoreMountedTwice(t *testing.T) {
	s, raw := check.Store(t, cargo)
	root := membrane.Guarded(check.Compose(t, map[string]vfs.Dir{"a": s.Root(), "b": s.Root()}).Root(), nil)
	a, b := check.DirAt(t, root, "a"), check.DirAt(t, root, "b")
	before := nodes(t, raw)
	check.Is(t, "a file", a.Rename(t.Context(), "stays", b, "stays", vfs.If{}, vfs.If{Is: version(t, raw, "stays")}), vfs.Exists)
	check.Is(t, "a file", a.Rename(t.Context(), "stays", b, "stays", vfs.If{}, vfs.If{}), vfs.Exists)
	err := a.Rename(t.Context(), "d", check.DirAt(t, b, "d"), "inner", vfs.If{}, vfs.If{})
	check.Is(t, "a directory", err, vfs.Conflict)
	if now := nodes(t, raw); !maps.Equal(now, before) {
		t.Errorf("became %v", now)
	}
	check.OK(t, a.Rename(t.Context(), "d", b, "d2", vfs.If{}, vfs.If{}))
	if got, want := below(nodes(t, raw), "d2"), below(before, "d"); !maps.Equal(got, want) {
		t.Errorf("moved to %v", got)
	}
}

// TestMoveUnderRules: the rules of the mounts and of the grant apply. If they refuse,
// nothing changes.
func TestMoveUnderRules(t *testing.T) {
	pem := deny.Must("**/*.pem").Guard()
	plain := vfstest.Tree{"d/f": {Data: "x"}, "d/s.pem": {Data: "secret"}, "l": {Link: "d"}, "e/l": {Link: "x"}, "g/x": {Data: "x"}}
	for name, c := range map[string]struct {
		a, b namespace.Options
		move string
		want vfs.Code
	}{
		"free":                       {move: "d"},
		"hidden at the source":       {a: namespace.Options{Guards: []membrane.Guard{pem}}, move: "d", want: vfs.Denied},
		"hidden at the target":       {b: namespace.Options{Guards: []membrane.Guard{pem}}, move: "d", want: vfs.Denied},
		"nothing hidden":             {a: namespace.Options{Guards: []membrane.Guard{pem}}, move: "g"},
		"asked at the target":        {b: namespace.Options{Guards: []membrane.Guard{deny.Must("**/*.pem").Ask("b")}}, move: "d", want: vfs.AskDenied},
		"read-only source":           {a: namespace.Options{ReadOnly: true}, move: "d", want: vfs.ReadOnly},
		"read-only target":           {b: namespace.Options{ReadOnly: true}, move: "d", want: vfs.ReadOnly},
		"a link, none at the source": {a: namespace.Options{NoLinks: true}, move: "l", want: vfs.Denied},
		"a link, none at the target": {b: namespace.Options{NoLinks: true}, move: "l", want: vfs.Denied},
		"a link within":              {b: namespace.Options{NoLinks: true}, move: "e", want: vfs.Denied},
		"quota":                      {b: namespace.Options{Guards: []membrane.Guard{{Meter: check.NewMeter(meter.Limits{meter.StoredNodes: 2})}}}, move: "d", want: vfs.Quota},
	} {
		t.Run(name, func(t *testing.T) {
			sa, a := check.Store(t, plain)
			sb, b := check.Store(t, nil)
			ns := namespace.New()
			check.OK(t, ns.Mount("a", sa.Root(), c.a))
			check.OK(t, ns.Mount("b", sb.Root(), c.b))
			root := membrane.Guarded(ns.Root(), nil)
			before := nodes(t, a)
			check.Is(t, "move", check.DirAt(t, root, "a").Rename(t.Context(), c.move, check.DirAt(t, root, "b"), "got", vfs.If{}, vfs.If{}), c.want)
			if c.want == "" {
				if got, want := below(nodes(t, b), "got"), below(before, c.move); !maps.Equal(got, want) {
					t.Errorf("arrived as %v, want %v", got, want)
				}
				return
			}
			if now := nodes(t, a); !maps.Equal(now, before) {
				t.Errorf("the source became %v", now)
			}
			if now := nodes(t, b); len(now) > 0 {
				t.Errorf("the target became %v", now)
			}
		})
	}
	t.Run("no right to read", func(t *testing.T) {
		sa, _ := check.Store(t, plain)
		sb, b := check.Store(t, vfstest.Tree{"f": {Data: "there"}})
		ga, ca := check.Controlled(t, membrane.Guarded(sa.Root(), nil))
		gb, cb := check.Controlled(t, membrane.Guarded(sb.Root(), nil))
		ns := namespace.New()
		check.OK(t, ns.Mount("a", ga, namespace.Options{}))
		check.OK(t, ns.Mount("b", gb, namespace.Options{}))
		root := membrane.Guarded(ns.Root(), nil)
		from, to := check.DirAt(t, root, "a/g"), check.DirAt(t, root, "b")
		move := func(newName string, to2 vfs.If) error {
			return from.Rename(t.Context(), "x", to, newName, vfs.If{}, to2)
		}
		there := vfs.If{Is: version(t, b, "f")}
		ca.SetReadable(false)
		check.OK(t, cb.SetWritable(false))
		check.Is(t, "at the source", move("new", vfs.If{}), vfs.Denied) // which comes before readOnly
		ca.SetReadable(true)
		check.OK(t, cb.SetWritable(true))
		cb.SetReadable(false)
		check.OK(t, ca.SetWritable(false))
		check.Is(t, "at the target, of which a version is asked", move("f", there), vfs.Denied)
		check.Is(t, "at the target", move("new", vfs.If{}), vfs.ReadOnly)
	})
	t.Run("a mount within", func(t *testing.T) {
		w := trees(t, cargo, nil)
		check.Mount(t, w.ns, "a/d/e/m", nil)
		check.Is(t, "move", w.move(t, "d", "d", vfs.If{}, vfs.If{}), vfs.Busy)
		check.Is(t, "move", check.DirAt(t, w.root, "a/d").Rename(t.Context(), "e", check.DirAt(t, w.root, "b"), "d", vfs.If{}, vfs.If{}), vfs.Busy)
	})
	t.Run("between grants", func(t *testing.T) {
		w := trees(t, cargo, nil)
		var d [2]vfs.Dir
		var l [2]*meter.Meter
		for i, path := range []string{"a", "b"} {
			l[i] = check.NewMeter(meter.Limits{meter.StoredBytes: 1000, meter.StoredNodes: 10})
			d[i] = check.DirAt(t, membrane.Guarded(w.ns.Root(), nil, membrane.Guard{Meter: l[i]}), path)
		}
		check.OK(t, check.Put(t.Context(), d[0], "mine", strings.Repeat("x", 40)))
		check.OK(t, d[0].Rename(t.Context(), "mine", d[1], "yours", vfs.If{}, vfs.If{}))
		if u, v := check.UsageOf(l[0]), check.UsageOf(l[1]); u.Bytes != 0 || u.Nodes != 0 || v.Bytes != 40 || v.Nodes != 1 {
			t.Errorf("the meters have %+v and %+v", u, v)
		}
		check.Is(t, "a directory", d[0].Rename(t.Context(), "d", d[1], "d", vfs.If{}, vfs.If{}), vfs.Denied)
		check.Is(t, "a link", check.DirAt(t, d[0], "d").Rename(t.Context(), "l", d[1], "l", vfs.If{}, vfs.If{}), vfs.Denied)
	})
}

var errFault = vfs.Errorf(vfs.Busy, "planned")

// TestMoveFails fails each operation of the source and of the target in turn, in each of
// its stages. Every file is whole in at least one place. A failure before the first
// removal leaves the source as it was and nothing at the target.
func TestMoveFails(t *testing.T) {
	for _, move := range []struct {
		name string
		over string // what is at the target
	}{{"d", ""}, {"stays", ""}, {"stays", "the old one"}} {
		for _, stage := range []faultfs.Stage{faultfs.Before, faultfs.Commit, faultfs.After} {
			for _, end := range []string{"source", "target"} {
				t.Run(fmt.Sprint(move.name, move.over, " stage ", stage, " ", end), func(t *testing.T) {
					failed, clean, split := 0, 0, 0
					for n := 1; ; n++ {
						there := vfstest.Tree{}
						var to vfs.If
						if move.over != "" {
							there["got"] = vfstest.Node{Data: move.over, Exec: true}
						}
						quota := check.NewMeter(meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 100})
						w := trees(t, cargo, there, membrane.Guard{Meter: quota})
						quota.Settle(meter.Effect{}, meter.Effect(w.stored()))
						if move.over != "" {
							to.Is = version(t, w.b, "got")
						}
						a, b := nodes(t, w.a), nodes(t, w.b)
						from, dst := check.DirAt(t, w.root, "a"), check.DirAt(t, w.root, "b")
						plan := w.pa
						if end == "target" {
							plan = w.pb
						}
						plan.Fail(faultfs.Any, stage, n, errFault)
						err := from.Rename(t.Context(), move.name, dst, "got", vfs.If{}, to)
						w.pa.Clear()
						w.pb.Clear()
						nowA, nowB := below(nodes(t, w.a), move.name), below(nodes(t, w.b), "got")
						if u, is := check.UsageOf(quota), w.stored(); u.Bytes != is.Bytes || u.Nodes != is.Nodes {
							t.Fatalf("%d (%v): the trees hold %+v, the allowance counts %+v", n, err, is, u)
						}
						whole, none := below(a, move.name), below(b, "got")
						for path, what := range whole {
							if nowA[path] != what && nowB[path] != what {
								t.Fatalf("%d: %s is lost", n, path)
							}
						}
						switch {
						case maps.Equal(nowA, whole) && maps.Equal(nowB, none):
							clean++
						case maps.Equal(nowB, whole): // removed in part
							split++
						default:
							t.Fatalf("%d (%v): source %v, target %v", n, err, nowA, nowB)
						}
						if err == nil && len(nowA) > 0 {
							t.Fatalf("%d: it says that it moved", n)
						}
						if err != nil {
							failed++
						} else if n > failed+20 { // a lost answer of Close matters to nobody
							break
						}
					}
					if clean < 3 && end == "target" && stage == faultfs.Before && move.name == "d" || failed < 1 {
						t.Errorf("%d failed, %d were undone, %d had gone too far", failed, clean, split)
					}
				})
			}
		}
	}
}

// TestMoveEnds: a cancelled move is undone. A move whose gate is shut changes nothing any
// more.
func TestMoveEnds(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		w := trees(t, cargo, nil)
		before := nodes(t, w.a)
		ctx, cancel := context.WithCancel(t.Context())
		pause := w.pb.Pause(faultfs.Install, faultfs.After, 2)
		done := make(chan error)
		from, to := check.DirAt(t, w.root, "a"), check.DirAt(t, w.root, "b")
		go func() { done <- from.Rename(ctx, "d", to, "got", vfs.If{}, vfs.If{}) }()
		<-pause.Reached()
		cancel()
		pause.Resume()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		if !maps.Equal(nodes(t, w.a), before) || len(nodes(t, w.b)) > 0 {
			t.Errorf("source %v, target %v", nodes(t, w.a), nodes(t, w.b))
		}
	})
	t.Run("revoked", func(t *testing.T) {
		w := trees(t, cargo, nil)
		d, c := check.Controlled(t, w.root)
		w.root = d
		before := nodes(t, w.a)
		pause := w.pb.Pause(faultfs.Install, faultfs.Before, 2)
		done := make(chan error)
		go func() { done <- w.move(t, "d", "got", vfs.If{}, vfs.If{}) }()
		<-pause.Reached()
		check.OK(t, c.Revoke())
		a, b := nodes(t, w.a), nodes(t, w.b)
		pause.Resume()
		check.Is(t, "move", <-done, vfs.Revoked)
		if !maps.Equal(nodes(t, w.a), a) || !maps.Equal(nodes(t, w.b), b) || !maps.Equal(a, before) {
			t.Errorf("source %v, target %v", nodes(t, w.a), nodes(t, w.b))
		}
	})
	t.Run("unmounted", func(t *testing.T) {
		w := trees(t, cargo, nil)
		before := nodes(t, w.a)
		pause := w.pb.Pause(faultfs.Install, faultfs.Before, 2)
		done := make(chan error)
		go func() { done <- w.move(t, "d", "got", vfs.If{}, vfs.If{}) }()
		<-pause.Reached()
		check.OK(t, w.ns.Unmount(t.Context(), "b"))
		b := nodes(t, w.b)
		pause.Resume()
		check.Is(t, "move", <-done, vfs.Stale)
		if !maps.Equal(nodes(t, w.a), before) || !maps.Equal(nodes(t, w.b), b) {
			t.Errorf("source %v, target %v", nodes(t, w.a), nodes(t, w.b))
		}
	})
}

func TestMoveIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many files")
	}
	s := memory.New(memory.Limits{Nodes: 1 << 17})
	ctx := t.Context()
	many, err := s.Root().Mkdir(ctx, "many")
	check.OK(t, err)
	for i := range 1 << 16 {
		_, err := many.Create(ctx, fmt.Sprint(i))
		check.OK(t, err)
	}
	_, b := check.Store(t, nil)
	root := membrane.Guarded(check.Compose(t, map[string]vfs.Dir{"a": s.Root(), "b": b}).Root(), nil)
	start := time.Now()
	check.Is(t, "many", check.DirAt(t, root, "a").Rename(ctx, "many", check.DirAt(t, root, "b"), "many", vfs.If{}, vfs.If{}), vfs.Limit)
	t.Log("refused after", time.Since(start))
}

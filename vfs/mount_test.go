package vfs_test

import (
	"context"
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
	"capd/vfs/faultfs"
	"capd/vfs/vfstest"
)

func mount(t testing.TB, ns *vfs.Namespace, path string, tree vfstest.Tree) {
	t.Helper()
	_, d := store(t, tree)
	ok(t, ns.Mount(path, d, vfs.MountOptions{}))
}

func shows(t testing.TB, what string, d vfs.Dir, want string) {
	t.Helper()
	if got := strings.Join(naive(t, d, "**"), " "); got != want {
		t.Errorf("%s: it has %s, want %s", what, got, want)
	}
}

// TestMountShows mounts and unmounts under what is open: it shows at once, and a
// node is of the tree that it was opened in.
func TestMountShows(t *testing.T) {
	for name, wrap := range map[string]func(vfs.Dir) vfs.Dir{
		"bare":  func(d vfs.Dir) vfs.Dir { return d },
		"grant": func(d vfs.Dir) vfs.Dir { return vfs.Guarded(d, nil, policies()...) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			ns := vfs.NewNamespace()
			root := wrap(ns.Root())
			shows(t, "empty", root, "")

			mount(t, ns, "", vfstest.Tree{"a/f": {Data: "old"}, "a/b/f": {Data: "old"}, "l": {Link: "a/f"}, "m": {Data: "a file"}})
			shows(t, "a root", root, "a a/b a/b/f a/f l m")
			a, ab := dirAt(t, root, "a"), dirAt(t, root, "a/b")
			af, abf, m := fileAt(t, root, "a/f"), fileAt(t, root, "a/b/f"), fileAt(t, root, "m")
			n, err := vfs.WalkLink(ctx, root, "l")
			ok(t, err)
			content, err := vfs.Open(ctx, abf)
			ok(t, err)
			is(t, "twice", ns.Mount("", a, vfs.MountOptions{}), vfs.Exists)

			stat := func(n vfs.Node) error { _, err := n.Stat(ctx); return err }
			mount(t, ns, "a/b", vfstest.Tree{"f": {Data: "new"}, "g": {Data: "new"}})
			shows(t, "below an open directory", a, "b b/f b/g f")
			is(t, "a directory under a mount", stat(ab), vfs.Stale)
			is(t, "a file under a mount", stat(abf), vfs.Stale)
			_, err = content.ReadAt(make([]byte, 1), 0)
			is(t, "a content under a mount", err, vfs.Stale)
			_, err = abf.WriteAt(ctx, []byte("x"), 0, vfs.If{})
			is(t, "a write under a mount", err, vfs.Stale)
			is(t, "a directory under a mount", put(ctx, ab, "h", "x"), vfs.Stale)
			_, err = names(ctx, ab)
			is(t, "a list under a mount", err, vfs.Stale)
			ok(t, stat(af))
			if got := read(t, root, "a/b/f"); got != "new" {
				t.Error(got)
			}
			newB, newF := dirAt(t, root, "a/b"), fileAt(t, root, "a/b/f")

			mount(t, ns, "m/n/o", vfstest.Tree{"f": {Data: "deep"}})
			shows(t, "where a file was", root, "a a/b a/b/f a/b/g a/f l m m/n m/n/o m/n/o/f")
			is(t, "a file where a directory leads", stat(m), vfs.Stale)
			_, err = m.ReadAt(ctx, make([]byte, 1), 0)
			is(t, "a file where a directory leads", err, vfs.Stale)
			led := dirAt(t, root, "m/n")

			ok(t, ns.Unmount(ctx, "")) // those below stay
			shows(t, "without a root", root, "a a/b a/b/f a/b/g m m/n m/n/o m/n/o/f")
			for what, n := range map[string]vfs.Node{"a directory": a, "a file": af, "a link": n, "what was hidden": ab, "a file that was hidden": abf} {
				is(t, what+" of what was unmounted", stat(n), vfs.Stale)
			}
			_, err = n.(vfs.Link).Target(ctx)
			is(t, "the target of a link", err, vfs.Stale)
			ok(t, stat(newB))
			is(t, "what led in another tree", stat(led), vfs.Stale)
			led = dirAt(t, root, "m/n")

			mount(t, ns, "", vfstest.Tree{"a/b/hidden": {Data: "x"}, "a/c": {Data: "c"}, "z": {Data: "z"}})
			shows(t, "around mounts", root, "a a/b a/b/f a/b/g a/c m m/n m/n/o m/n/o/f z")
			ok(t, stat(newF))
			is(t, "of the first root", stat(af), vfs.Stale)

			ok(t, ns.Unmount(ctx, "a/b"))
			shows(t, "uncovered", root, "a a/b a/b/hidden a/c m m/n m/n/o m/n/o/f z")
			is(t, "a directory", stat(newB), vfs.Stale)
			is(t, "a file", stat(newF), vfs.Stale)
			ok(t, ns.Unmount(ctx, "m/n/o"))
			shows(t, "nothing leads there", root, "a a/b a/b/hidden a/c z")
			is(t, "what led", stat(led), vfs.Stale)
			hidden := fileAt(t, root, "a/b/hidden")
			mount(t, ns, "a", nil)
			is(t, "hidden", stat(hidden), vfs.Stale)
			ok(t, ns.Unmount(ctx, "a"))
			ok(t, stat(hidden)) // it is where it was
			ok(t, put(ctx, root, "a/b/hidden", "again"))

			ok(t, ns.Close())
			ok(t, ns.Close())
			is(t, "closed", stat(root), vfs.Stale)
			is(t, "closed", stat(hidden), vfs.Stale)
			is(t, "mount", ns.Mount("x", a, vfs.MountOptions{}), vfs.Stale)
		})
	}
}

func TestMounts(t *testing.T) {
	ns := vfs.NewNamespace()
	_, d := store(t, sample)
	for _, path := range []string{"b", "a/c", "a", ""} {
		ok(t, ns.Mount(path, d, vfs.MountOptions{ReadOnly: path == "a", NoLinks: path == "b"}))
	}
	want := []vfs.Mount{{Path: ""}, {Path: "a", ReadOnly: true}, {Path: "a/c"}, {Path: "b", NoLinks: true}}
	if got := vfs.Mounts(ns); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestMountAttenuates has every attenuation, and another mount beside it without.
// TestLedToNothing: a directory that only leads to mounts goes with the last of them.
func TestLedToNothing(t *testing.T) {
	ns := compose(t, nil)
	mount(t, ns, "x/y/one", nil)
	mount(t, ns, "x/two", nil)
	root := vfs.Guarded(ns.Root(), nil)
	x, y := dirAt(t, root, "x"), dirAt(t, root, "x/y")
	try := func(what string, ofX, ofY vfs.Code) {
		t.Helper()
		for d, want := range map[vfs.Dir]vfs.Code{x: ofX, y: ofY} {
			_, err := d.Stat(t.Context())
			is(t, what+": stat", err, want)
			_, err = names(t.Context(), d)
			is(t, what+": list", err, want)
		}
	}
	try("both", "", "")
	ok(t, ns.Unmount(t.Context(), "x/y/one"))
	try("one is gone", "", vfs.Stale)
	ok(t, ns.Unmount(t.Context(), "x/two"))
	try("both are gone", vfs.Stale, vfs.Stale)
}

func TestMountAttenuates(t *testing.T) {
	ctx := t.Context()
	ns := vfs.NewNamespace()
	tree := vfstest.Tree{"f": {Data: "content"}, "secret.pem": {Data: "x"}, "d/f": {Data: "x"}, "l": {Link: "f"}, "d/l": {Link: "f"}}
	ledger := newMeter(meter.Limits{meter.StoredBytes: 10})
	for path, o := range map[string]vfs.MountOptions{
		"ro": {ReadOnly: true}, "nolinks": {NoLinks: true}, "free": {},
		"deny":  {Guards: []vfs.Guard{deny.Must("**/*.pem").Guard()}},
		"quota": {Guards: []vfs.Guard{{Meter: ledger}}},
		"both":  {ReadOnly: true, NoLinks: true, Guards: []vfs.Guard{deny.Must("**/*.pem").Guard()}},
	} {
		_, d := store(t, tree)
		ok(t, ns.Mount(path, d, o))
	}
	d := vfs.Guarded(ns.Root(), nil)
	look := func(path string) error {
		n, err := vfs.WalkLink(ctx, d, path)
		if err == nil {
			n.Close()
		}
		return err
	}
	for path, want := range map[string][4]vfs.Code{ // write, look at a secret, at a link, write much
		"free":    {},
		"ro":      {vfs.ReadOnly, "", "", vfs.ReadOnly},
		"nolinks": {"", "", vfs.Denied, ""},
		"deny":    {"", vfs.Denied, "", ""},
		"quota":   {"", "", "", vfs.Quota},
		"both":    {vfs.ReadOnly, vfs.Denied, vfs.Denied, vfs.ReadOnly},
	} {
		is(t, path+": write", put(ctx, d, path+"/d/g", "x"), want[0])
		is(t, path+": a secret", look(path+"/secret.pem"), want[1])
		is(t, path+": a link", look(path+"/l"), want[2])
		is(t, path+": a link below", look(path+"/d/l"), want[2])
		_, err := vfs.Walk(ctx, d, path+"/l")
		is(t, path+": through a link", err, want[2])
		is(t, path+": write much", put(ctx, d, path+"/much", strings.Repeat("x", 20)), want[3])
		is(t, path+": make a link", vfs.Symlink(ctx, dirAt(t, d, path), "made", "f"), first(want[2], want[0]))
	}
}

func first(codes ...vfs.Code) vfs.Code {
	for _, c := range codes {
		if c != "" {
			return c
		}
	}
	return ""
}

// TestUnmountCloses: the tree is closed, once, when it was unmounted, whatever is
// open in it, and what was never mounted is not.
func TestUnmountCloses(t *testing.T) {
	for name, guards := range map[string][]vfs.Guard{"one membrane": nil, "two": {{}}} {
		t.Run(name, func(t *testing.T) {
			gate := vfs.NewGate()
			_, raw := store(t, sample)
			tree := vfs.Guarded(raw, gate)
			ns, closed := vfs.NewNamespace(), 0
			o := vfs.MountOptions{Guards: guards, OnClose: func() { closed++ }}
			ok(t, ns.Mount("m/n", tree, o))
			is(t, "exists", ns.Mount("m/n", tree, o), vfs.Exists)
			mount(t, ns, "m/n/a/b", sample)
			is(t, "invalid", ns.Mount("/", tree, o), vfs.Invalid)
			root := vfs.Guarded(ns.Root(), nil)
			a, f := dirAt(t, root, "m/n/a"), fileAt(t, root, "m/n/f")
			told := 0
			vfs.OnRevoke(f, func(err error) { is(t, "told", err, vfs.Stale); told++ })
			ok(t, root.Close())
			gate.Release()
			if closed != 0 || vfs.Gone(gate) {
				t.Error("closed with the root")
			}
			ok(t, ns.Unmount(t.Context(), "m/n"))
			is(t, "again", ns.Unmount(t.Context(), "m/n"), vfs.NotFound)
			if closed != 1 || told != 1 {
				t.Errorf("closed %d times, told %d times", closed, told)
			}
			if got := read(t, ns.Root(), "m/n/a/b/f"); got != "content" {
				t.Error(got)
			}
			_, err := f.ReadAt(t.Context(), make([]byte, 1), 0)
			is(t, "a file", err, vfs.Stale)
			ok(t, a.Close())
			ok(t, f.Close())
			if !vfs.Gone(gate) {
				t.Error("the tree was not closed")
			}
			ok(t, ns.Close())
			if closed != 1 {
				t.Errorf("closed %d times", closed)
			}
		})
	}
}

// TestUnmountWaits: a change that had begun is waited for, and nothing changes
// after unmount has answered.
func TestUnmountWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, raw := store(t, sample)
		plan := &faultfs.Plan{}
		ns, closed := vfs.NewNamespace(), false
		ok(t, ns.Mount("m", faultfs.New(raw, plan), vfs.MountOptions{OnClose: func() { closed = true }}))
		d := vfs.Guarded(ns.Root(), nil)
		stuck := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
		done := make(chan error)
		go func() { done <- put(context.Background(), d, "m/f", "late") }()
		<-stuck.Reached()
		err := ns.Unmount(t.Context(), "m")
		is(t, "stuck", err, vfs.Busy)
		if !strings.Contains(err.Error(), "replace f") || closed {
			t.Errorf("%v; closed %v", err, closed)
		}
		if all := vfs.Mounts(ns); len(all) != 1 || !all[0].Shut {
			t.Errorf("%+v", all)
		}
		is(t, "shut", put(t.Context(), d, "m/g", "x"), vfs.Stale)
		_, err = names(t.Context(), dirAt(t, d, "m"))
		is(t, "shut", err, vfs.Stale)
		is(t, "taken", ns.Mount("m", raw, vfs.MountOptions{}), vfs.Exists)
		is(t, "close", ns.Close(), vfs.Busy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ns.Unmount(ctx, "m"); err != context.DeadlineExceeded {
			t.Errorf("with a deadline: %v", err)
		}
		go func() { time.Sleep(time.Second); stuck.Resume() }()
		ok(t, ns.Close())
		if got := read(t, s.Root(), "f"); got != "late" || !closed {
			t.Errorf("%s; closed %v", got, closed)
		}
		ok(t, <-done)
	})
}

// TestUnmountUnderLoad mounts and unmounts while guests work: no change lands in a
// tree that was unmounted, and nothing but stale and notFound is answered for it.
func TestUnmountUnderLoad(t *testing.T) {
	ns := vfs.NewNamespace()
	mount(t, ns, "", vfstest.Tree{"f": {Data: "beside"}})
	d := vfs.Guarded(ns.Root(), nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				err := put(context.Background(), d, "m/sub/"+fmt.Sprint(i), fmt.Sprint(n))
				if err == nil {
					err = d.Rename(context.Background(), "m", d, "q", vfs.If{}, vfs.If{})
				}
				switch vfs.CodeOf(err) {
				case vfs.Stale, vfs.NotFound, vfs.Busy:
				default:
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	for range 200 {
		s, raw := store(t, vfstest.Tree{"sub": {Dir: true}})
		ok(t, ns.Mount("m", raw, vfs.MountOptions{}))
		time.Sleep(20 * time.Microsecond)
		ok(t, ns.Unmount(t.Context(), "m"))
		before := picture(t, s.Root())
		time.Sleep(20 * time.Microsecond)
		if after := picture(t, s.Root()); after != before {
			t.Fatalf("after unmount %s became %s", before, after)
		}
	}
	stop()
	wg.Wait()
}

// TestUnmountEnds: what is under way in the tree ends with it, and is not waited for.
func TestUnmountEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := vfs.NewNamespace()
		mount(t, ns, "m", sample)
		d := vfs.Guarded(ns.Root(), nil)
		m, f := dirAt(t, d, "m"), fileAt(t, d, "m/f")
		content, err := vfs.Open(t.Context(), f)
		ok(t, err)
		slow := &asking{ask: make(chan struct{})}
		written := make(chan error)
		go func() {
			_, err := m.Replace(t.Context(), "f", slow, vfs.If{})
			written <- err
		}()
		synctest.Wait()
		var listed error
		for _, err := range m.List(t.Context()) {
			if err != nil {
				listed = err
				break
			}
			if len(vfs.Mounts(ns)) > 0 {
				ok(t, ns.Unmount(t.Context(), "m"))
			}
		}
		is(t, "a list under way", listed, vfs.Stale)
		is(t, "a write that waits for its reader", <-written, vfs.Stale)
		_, err = content.ReadAt(make([]byte, 1), 0)
		is(t, "a content held open", err, vfs.Stale)
		_, err = vfs.VersionOf(t.Context(), f)
		is(t, "a version", err, vfs.Stale)
		ok(t, content.Close())
		close(slow.ask)
	})
}

// TestMountsOfMany mounts, lists and walks at once. Run with -race.
func TestMountsOfMany(t *testing.T) {
	ns := vfs.NewNamespace()
	mount(t, ns, "", vfstest.Tree{"a/b/c/f": {Data: "beneath"}})
	d := vfs.Guarded(ns.Root(), nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				n, err := vfs.Walk(context.Background(), d, "a/b/c/f")
				if err == nil {
					_, err = n.(vfs.File).ReadAt(context.Background(), make([]byte, 1), 0)
					n.Close()
				}
				switch vfs.CodeOf(err) {
				case "", vfs.Stale, vfs.NotFound:
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	var mounting sync.WaitGroup
	for _, path := range []string{"a", "a/b", "a/b/c", "a/b/c/d"} {
		mounting.Go(func() {
			for range 300 {
				_, tree := store(t, vfstest.Tree{"b/c/f": {Data: "x"}, "c/f": {Data: "x"}, "f": {Data: "x"}})
				ok(t, ns.Mount(path, tree, vfs.MountOptions{}))
				vfs.Mounts(ns)
				ok(t, ns.Unmount(context.Background(), path))
			}
		})
	}
	mounting.Wait()
	stop()
	wg.Wait()
	if got := read(t, d, "a/b/c/f"); got != "beneath" {
		t.Error(got)
	}
	shows(t, "at the end", d, "a a/b a/b/c a/b/c/f")
}

// TestMountsInAnyOrder mounts and unmounts what nests in every order: what is left
// shows, and a node that nothing hides any more is live.
func TestMountsInAnyOrder(t *testing.T) {
	paths := []string{"a", "a/b", "a/b/c"}
	var orders [][]string
	for _, x := range paths {
		for _, y := range paths {
			for _, z := range paths {
				if x != y && y != z && x != z {
					orders = append(orders, []string{x, y, z})
				}
			}
		}
	}
	tree := vfstest.Tree{"a/b/c/f": {Data: "root"}, "b/c/f": {Data: "a"}, "c/f": {Data: "a/b"}, "f": {Data: "a/b/c"}}
	for _, up := range orders {
		for _, down := range orders {
			ns := vfs.NewNamespace()
			mount(t, ns, "", tree)
			live := map[string]vfs.File{}
			check := func() {
				t.Helper()
				inner := "root"
				for _, m := range vfs.Mounts(ns)[1:] {
					inner = m.Path
				}
				f := fileAt(t, ns.Root(), "a/b/c/f")
				if got := read(t, ns.Root(), "a/b/c/f"); got != inner {
					t.Fatalf("up %v, down %v: %s shows, want %s", up, down, got, inner)
				}
				if was := live[inner]; was != nil {
					f = was
				}
				_, err := f.Stat(t.Context())
				ok(t, err)
				live[inner] = f
				for at, f := range live {
					_, err := f.Stat(t.Context())
					if (err == nil) != (at == inner) {
						t.Fatalf("up %v, down %v: a file of %s, under %s: %v", up, down, at, inner, err)
					}
				}
			}
			check()
			for _, path := range up {
				mount(t, ns, path, tree)
				check()
			}
			for _, path := range down {
				ok(t, ns.Unmount(t.Context(), path))
				delete(live, path)
				check()
			}
		}
	}
}

package namespace_test

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
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func shows(t testing.TB, what string, d vfs.Dir, want string) {
	t.Helper()
	if got := strings.Join(check.Naive(t, d, "**"), " "); got != want {
		t.Errorf("%s: it has %s, want %s", what, got, want)
	}
}

// TestMountShows mounts and unmounts below open nodes. It shows at once, and a node
// belongs to the tree in which it was opened.
func TestMountShows(t *testing.T) {
	for name, wrap := range map[string]func(vfs.Dir) vfs.Dir{
		"bare":  func(d vfs.Dir) vfs.Dir { return d },
		"grant": func(d vfs.Dir) vfs.Dir { return membrane.Guarded(d, nil, check.Policies()...) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			ns := namespace.New()
			root := wrap(ns.Root())
			shows(t, "empty", root, "")

			check.Mount(t, ns, "", vfstest.Tree{"a/f": {Data: "old"}, "a/b/f": {Data: "old"}, "l": {Link: "a/f"}, "m": {Data: "a file"}})
			shows(t, "a root", root, "a a/b a/b/f a/f l m")
			a, ab := check.DirAt(t, root, "a"), check.DirAt(t, root, "a/b")
			af, abf, m := check.FileAt(t, root, "a/f"), check.FileAt(t, root, "a/b/f"), check.FileAt(t, root, "m")
			n, err := vfs.WalkLink(ctx, root, "l")
			check.OK(t, err)
			content, err := vfs.Open(ctx, abf)
			check.OK(t, err)
			check.Is(t, "twice", ns.Mount("", a, namespace.Options{}), vfs.Exists)

			stat := func(n vfs.Node) error { _, err := n.Stat(ctx); return err }
			check.Mount(t, ns, "a/b", vfstest.Tree{"f": {Data: "new"}, "g": {Data: "new"}})
			shows(t, "below an open directory", a, "b b/f b/g f")
			check.Is(t, "a directory under a mount", stat(ab), vfs.Stale)
			check.Is(t, "a file under a mount", stat(abf), vfs.Stale)
			_, err = content.ReadAt(make([]byte, 1), 0)
			check.Is(t, "a content under a mount", err, vfs.Stale)
			_, err = abf.WriteAt(ctx, []byte("x"), 0, vfs.If{})
			check.Is(t, "a write under a mount", err, vfs.Stale)
			check.Is(t, "a directory under a mount", check.Put(ctx, ab, "h", "x"), vfs.Stale)
			_, err = check.Names(ctx, ab)
			check.Is(t, "a list under a mount", err, vfs.Stale)
			check.OK(t, stat(af))
			if got := check.Read(t, root, "a/b/f"); got != "new" {
				t.Error(got)
			}
			newB, newF := check.DirAt(t, root, "a/b"), check.FileAt(t, root, "a/b/f")

			check.Mount(t, ns, "m/n/o", vfstest.Tree{"f": {Data: "deep"}})
			shows(t, "where a file was", root, "a a/b a/b/f a/b/g a/f l m m/n m/n/o m/n/o/f")
			check.Is(t, "a file where a directory leads", stat(m), vfs.Stale)
			_, err = m.ReadAt(ctx, make([]byte, 1), 0)
			check.Is(t, "a file where a directory leads", err, vfs.Stale)
			led := check.DirAt(t, root, "m/n")

			check.OK(t, ns.Unmount(ctx, "")) // those below stay
			shows(t, "without a root", root, "a a/b a/b/f a/b/g m m/n m/n/o m/n/o/f")
			for what, n := range map[string]vfs.Node{"a directory": a, "a file": af, "a link": n, "what was hidden": ab, "a file that was hidden": abf} {
				check.Is(t, what+" of what was unmounted", stat(n), vfs.Stale)
			}
			_, err = n.(vfs.Link).Target(ctx)
			check.Is(t, "the target of a link", err, vfs.Stale)
			check.OK(t, stat(newB))
			check.Is(t, "what led in another tree", stat(led), vfs.Stale)
			led = check.DirAt(t, root, "m/n")

			check.Mount(t, ns, "", vfstest.Tree{"a/b/hidden": {Data: "x"}, "a/c": {Data: "c"}, "z": {Data: "z"}})
			shows(t, "around mounts", root, "a a/b a/b/f a/b/g a/c m m/n m/n/o m/n/o/f z")
			check.OK(t, stat(newF))
			check.Is(t, "of the first root", stat(af), vfs.Stale)

			check.OK(t, ns.Unmount(ctx, "a/b"))
			shows(t, "uncovered", root, "a a/b a/b/hidden a/c m m/n m/n/o m/n/o/f z")
			check.Is(t, "a directory", stat(newB), vfs.Stale)
			check.Is(t, "a file", stat(newF), vfs.Stale)
			check.OK(t, ns.Unmount(ctx, "m/n/o"))
			shows(t, "nothing leads there", root, "a a/b a/b/hidden a/c z")
			check.Is(t, "what led", stat(led), vfs.Stale)
			hidden := check.FileAt(t, root, "a/b/hidden")
			check.Mount(t, ns, "a", nil)
			check.Is(t, "hidden", stat(hidden), vfs.Stale)
			check.OK(t, ns.Unmount(ctx, "a"))
			check.OK(t, stat(hidden)) // it is where it was
			check.OK(t, check.Put(ctx, root, "a/b/hidden", "again"))

			check.OK(t, ns.Close())
			check.OK(t, ns.Close())
			check.Is(t, "closed", stat(root), vfs.Stale)
			check.Is(t, "closed", stat(hidden), vfs.Stale)
			check.Is(t, "mount", ns.Mount("x", a, namespace.Options{}), vfs.Stale)
		})
	}
}

func TestMounts(t *testing.T) {
	ns := namespace.New()
	_, d := check.Store(t, check.Sample)
	for _, path := range []string{"b", "a/c", "a", ""} {
		check.OK(t, ns.Mount(path, d, namespace.Options{ReadOnly: path == "a", NoLinks: path == "b"}))
	}
	want := []namespace.Mount{{Path: ""}, {Path: "a", ReadOnly: true}, {Path: "a/c"}, {Path: "b", NoLinks: true}}
	if got := namespace.Mounts(ns); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestLedToNothing: a directory that only leads to mounts disappears with the last of
// them.
func TestLedToNothing(t *testing.T) {
	ns := check.Compose(t, nil)
	check.Mount(t, ns, "x/y/one", nil)
	check.Mount(t, ns, "x/two", nil)
	root := membrane.Guarded(ns.Root(), nil)
	x, y := check.DirAt(t, root, "x"), check.DirAt(t, root, "x/y")
	try := func(what string, ofX, ofY vfs.Code) {
		t.Helper()
		for d, want := range map[vfs.Dir]vfs.Code{x: ofX, y: ofY} {
			_, err := d.Stat(t.Context())
			check.Is(t, what+": stat", err, want)
			_, err = check.Names(t.Context(), d)
			check.Is(t, what+": list", err, want)
		}
	}
	try("both", "", "")
	check.OK(t, ns.Unmount(t.Context(), "x/y/one"))
	try("one is gone", "", vfs.Stale)
	check.OK(t, ns.Unmount(t.Context(), "x/two"))
	try("both are gone", vfs.Stale, vfs.Stale)
}

// TestMountAttenuates tries every attenuation, beside another mount without any.
func TestMountAttenuates(t *testing.T) {
	ctx := t.Context()
	ns := namespace.New()
	tree := vfstest.Tree{"f": {Data: "content"}, "secret.pem": {Data: "x"}, "d/f": {Data: "x"}, "l": {Link: "f"}, "d/l": {Link: "f"}}
	ledger := check.NewMeter(meter.Limits{meter.StoredBytes: 10})
	for path, o := range map[string]namespace.Options{
		"ro": {ReadOnly: true}, "nolinks": {NoLinks: true}, "free": {},
		"deny":  {Guards: []membrane.Guard{deny.Must("**/*.pem").Guard()}},
		"quota": {Guards: []membrane.Guard{{Meter: ledger}}},
		"both":  {ReadOnly: true, NoLinks: true, Guards: []membrane.Guard{deny.Must("**/*.pem").Guard()}},
	} {
		_, d := check.Store(t, tree)
		check.OK(t, ns.Mount(path, d, o))
	}
	d := membrane.Guarded(ns.Root(), nil)
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
		check.Is(t, path+": write", check.Put(ctx, d, path+"/d/g", "x"), want[0])
		check.Is(t, path+": a secret", look(path+"/secret.pem"), want[1])
		check.Is(t, path+": a link", look(path+"/l"), want[2])
		check.Is(t, path+": a link below", look(path+"/d/l"), want[2])
		_, err := vfs.Walk(ctx, d, path+"/l")
		check.Is(t, path+": through a link", err, want[2])
		check.Is(t, path+": write much", check.Put(ctx, d, path+"/much", strings.Repeat("x", 20)), want[3])
		check.Is(t, path+": make a link", vfs.Symlink(ctx, check.DirAt(t, d, path), "made", "f"), first(want[2], want[0]))
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

// TestUnmountCloses: a tree is closed once, when it is unmounted, whatever is open in it.
// A tree that was never mounted is not closed.
func TestUnmountCloses(t *testing.T) {
	for name, guards := range map[string][]membrane.Guard{"one membrane": nil, "two": {{}}} {
		t.Run(name, func(t *testing.T) {
			gate := membrane.NewGate()
			_, raw := check.Store(t, check.Sample)
			left := false
			tree := membrane.Guarded(noted{raw, &left}, gate)
			ns, closed := namespace.New(), 0
			o := namespace.Options{Guards: guards, OnClose: func() { closed++ }}
			check.OK(t, ns.Mount("m/n", tree, o))
			check.Is(t, "exists", ns.Mount("m/n", tree, o), vfs.Exists)
			check.Mount(t, ns, "m/n/a/b", check.Sample)
			check.Is(t, "invalid", ns.Mount("/", tree, o), vfs.Invalid)
			root := membrane.Guarded(ns.Root(), nil)
			a, f := check.DirAt(t, root, "m/n/a"), check.FileAt(t, root, "m/n/f")
			told := 0
			membrane.OnRevoke(f, func(err error) { check.Is(t, "told", err, vfs.Stale); told++ })
			check.OK(t, root.Close())
			gate.Release()
			if closed != 0 || left {
				t.Error("closed with the root")
			}
			check.OK(t, ns.Unmount(t.Context(), "m/n"))
			check.Is(t, "again", ns.Unmount(t.Context(), "m/n"), vfs.NotFound)
			if closed != 1 || told != 1 {
				t.Errorf("closed %d times, told %d times", closed, told)
			}
			if got := check.Read(t, ns.Root(), "m/n/a/b/f"); got != "content" {
				t.Error(got)
			}
			_, err := f.ReadAt(t.Context(), make([]byte, 1), 0)
			check.Is(t, "a file", err, vfs.Stale)
			check.OK(t, a.Close())
			check.OK(t, f.Close())
			if !left {
				t.Error("the tree was not closed")
			}
			check.OK(t, ns.Close())
			if closed != 1 {
				t.Errorf("closed %d times", closed)
			}
		})
	}
}

// TestUnmountWaits: an unmount waits for a change that had begun. Nothing changes after
// it has answered.
func TestUnmountWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, raw := check.Store(t, check.Sample)
		plan := &faultfs.Plan{}
		ns, closed := namespace.New(), false
		check.OK(t, ns.Mount("m", faultfs.New(raw, plan), namespace.Options{OnClose: func() { closed = true }}))
		d := membrane.Guarded(ns.Root(), nil)
		stuck := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
		done := make(chan error)
		go func() { done <- check.Put(context.Background(), d, "m/f", "late") }()
		<-stuck.Reached()
		err := ns.Unmount(t.Context(), "m")
		check.Is(t, "stuck", err, vfs.Busy)
		if !strings.Contains(err.Error(), "replace f") || closed {
			t.Errorf("%v; closed %v", err, closed)
		}
		if all := namespace.Mounts(ns); len(all) != 1 || !all[0].Shut {
			t.Errorf("%+v", all)
		}
		check.Is(t, "shut", check.Put(t.Context(), d, "m/g", "x"), vfs.Stale)
		_, err = check.Names(t.Context(), check.DirAt(t, d, "m"))
		check.Is(t, "shut", err, vfs.Stale)
		check.Is(t, "taken", ns.Mount("m", raw, namespace.Options{}), vfs.Exists)
		check.Is(t, "close", ns.Close(), vfs.Busy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ns.Unmount(ctx, "m"); err != context.DeadlineExceeded {
			t.Errorf("with a deadline: %v", err)
		}
		go func() { time.Sleep(time.Second); stuck.Resume() }()
		check.OK(t, ns.Close())
		if got := check.Read(t, s.Root(), "f"); got != "late" || !closed {
			t.Errorf("%s; closed %v", got, closed)
		}
		check.OK(t, <-done)
	})
}

// TestUnmountUnderLoad mounts and unmounts while guests work. No change reaches an
// unmounted tree, and the only answers there are stale and notFound.
func TestUnmountUnderLoad(t *testing.T) {
	ns := namespace.New()
	check.Mount(t, ns, "", vfstest.Tree{"f": {Data: "beside"}})
	d := membrane.Guarded(ns.Root(), nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				err := check.Put(context.Background(), d, "m/sub/"+fmt.Sprint(i), fmt.Sprint(n))
				if err == nil {
					err = d.Rename(context.Background(), "m", d, "q", vfs.If{}, vfs.If{})
				}
				switch vfs.CodeOf(err) {
				case vfs.Stale, vfs.NotFound, vfs.Busy:
				default:
					t.Errorf("%v, want stale, notFound or busy", err)
					return
				}
			}
		})
	}
	for range 200 {
		s, raw := check.Store(t, vfstest.Tree{"sub": {Dir: true}})
		check.OK(t, ns.Mount("m", raw, namespace.Options{}))
		time.Sleep(20 * time.Microsecond)
		check.OK(t, ns.Unmount(t.Context(), "m"))
		before := check.Picture(t, s.Root())
		time.Sleep(20 * time.Microsecond)
		if after := check.Picture(t, s.Root()); after != before {
			t.Fatalf("after unmount %s became %s", before, after)
		}
	}
	stop()
	wg.Wait()
}

// TestUnmountEnds: what is in progress in the tree ends with it. Nobody waits for it.
func TestUnmountEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := namespace.New()
		check.Mount(t, ns, "m", check.Sample)
		d := membrane.Guarded(ns.Root(), nil)
		m, f := check.DirAt(t, d, "m"), check.FileAt(t, d, "m/f")
		content, err := vfs.Open(t.Context(), f)
		check.OK(t, err)
		slow := &check.Asking{Ask: make(chan struct{})}
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
			if len(namespace.Mounts(ns)) > 0 {
				check.OK(t, ns.Unmount(t.Context(), "m"))
			}
		}
		check.Is(t, "a list under way", listed, vfs.Stale)
		check.Is(t, "a write that waits for its reader", <-written, vfs.Stale)
		_, err = content.ReadAt(make([]byte, 1), 0)
		check.Is(t, "a content held open", err, vfs.Stale)
		_, err = vfs.VersionOf(t.Context(), f)
		check.Is(t, "a version", err, vfs.Stale)
		check.OK(t, content.Close())
		close(slow.Ask)
	})
}

// TestMountsOfMany mounts, lists and walks at once. Run with -race.
func TestMountsOfMany(t *testing.T) {
	ns := namespace.New()
	check.Mount(t, ns, "", vfstest.Tree{"a/b/c/f": {Data: "beneath"}})
	d := membrane.Guarded(ns.Root(), nil)
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
				_, tree := check.Store(t, vfstest.Tree{"b/c/f": {Data: "x"}, "c/f": {Data: "x"}, "f": {Data: "x"}})
				check.OK(t, ns.Mount(path, tree, namespace.Options{}))
				namespace.Mounts(ns)
				check.OK(t, ns.Unmount(context.Background(), path))
			}
		})
	}
	mounting.Wait()
	stop()
	wg.Wait()
	if got := check.Read(t, d, "a/b/c/f"); got != "beneath" {
		t.Error(got)
	}
	shows(t, "at the end", d, "a a/b a/b/c a/b/c/f")
}

// TestMountsInAnyOrder mounts and unmounts nested mounts in every order. What is left
// shows, and a node that is no longer hidden is live again.
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
			ns := namespace.New()
			check.Mount(t, ns, "", tree)
			live := map[string]vfs.File{}
			compare := func() {
				t.Helper()
				inner := "root"
				for _, m := range namespace.Mounts(ns)[1:] {
					inner = m.Path
				}
				f := check.FileAt(t, ns.Root(), "a/b/c/f")
				if got := check.Read(t, ns.Root(), "a/b/c/f"); got != inner {
					t.Fatalf("up %v, down %v: %s shows, want %s", up, down, got, inner)
				}
				if was := live[inner]; was != nil {
					f = was
				}
				_, err := f.Stat(t.Context())
				check.OK(t, err)
				live[inner] = f
				for at, f := range live {
					_, err := f.Stat(t.Context())
					if (err == nil) != (at == inner) {
						t.Fatalf("up %v, down %v: a file of %s, under %s: %v", up, down, at, inner, err)
					}
				}
			}
			compare()
			for _, path := range up {
				check.Mount(t, ns, path, tree)
				compare()
			}
			for _, path := range down {
				check.OK(t, ns.Unmount(t.Context(), path))
				delete(live, path)
				compare()
			}
		}
	}
}

// noted notes that it was closed.
type noted struct {
	vfs.Dir
	closed *bool
}

func (n noted) Close() error {
	*n.closed = true
	return n.Dir.Close()
}

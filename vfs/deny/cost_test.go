package deny_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// U+FDFA is one character of three bytes. Folded it has 18 letters.
const costly = "\ufdfa"

// served is a tree in memory with the default guards of a directory of the host, at a
// mount, as a guest sees it.
func served(t testing.TB) vfs.Dir {
	t.Helper()
	names := namespace.New()
	guards := []membrane.Guard{deny.Must(deny.Secrets...).Guard(), deny.Must(deny.Triggers...).Ask("it")}
	if err := names.Mount("m", memory.New(memory.Limits{}).Root(), namespace.Options{Guards: guards}); err != nil {
		t.Fatal(err)
	}
	top := membrane.Guarded(names.Root(), nil)
	t.Cleanup(func() { top.Close() })
	d, err := vfs.WalkDir(t.Context(), top, "m")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// deep makes nested directories below d, each called name and a number.
func deep(t testing.TB, d vfs.Dir, name string, depth int) (path string, last vfs.Dir) {
	t.Helper()
	for i := range depth {
		var err error
		each := name + strconv.Itoa(i)
		if d, err = d.Mkdir(t.Context(), each); err != nil {
			t.Fatal(err)
		}
		path = vfs.Join(path, each)
	}
	return path, d
}

// allocated returns how many bytes f allocates in all. This measures work like time does,
// but is the same on every machine.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The cost of a call is linear in its length: no name on the way is folded twice, and no
// name above the start of the call is folded.
func TestCost(t *testing.T) {
	top := served(t)
	ctx := t.Context()
	path, last := deep(t, top, strings.Repeat(costly, 10), 110)
	for i := range 100 {
		if _, err := last.Replace(ctx, strconv.Itoa(i), strings.NewReader("x"), vfs.If{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, bound uint64, err func() error) {
		t.Helper()
		var failed error
		took := allocated(func() { failed = err() })
		if failed != nil {
			t.Errorf("%s: %v", what, failed)
		}
		if took > bound {
			t.Errorf("%s allocates %d KiB, want at most %d", what, took>>10, bound>>10)
		}
	}
	check("a walk of 110 costly names", 900<<10, func() error {
		n, err := vfs.Walk(ctx, top, path)
		if err == nil {
			n.Close()
		}
		return err
	})
	check("listing 100 names below them", 64<<10, func() error {
		for _, err := range last.List(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	check("looking one up there", 32<<10, func() error {
		n, err := last.Lookup(ctx, "1")
		if err == nil {
			n.Close()
		}
		return err
	})
	check("a change there", 64<<10, func() error {
		_, err := last.Create(ctx, "new")
		return err
	})
	check("a move there", 64<<10, func() error {
		return last.Rename(ctx, "1", last, "moved", vfs.If{}, vfs.If{})
	})
	f, err := vfs.WalkFile(ctx, last, "2")
	if err != nil {
		t.Fatal(err)
	}
	check("a write there", 64<<10, func() error {
		_, err := f.WriteAt(ctx, []byte("y"), 0, vfs.If{})
		return err
	})
}

func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct {
		name, each string
		depth      int
	}{{"plain", "dir", 10}, {"deep", "dir", 120}, {"costly", strings.Repeat(costly, 10), 120}} {
		b.Run(c.name, func(b *testing.B) {
			top := served(b)
			path, _ := deep(b, top, c.each, c.depth)
			b.ReportAllocs()
			for b.Loop() {
				n, err := vfs.Walk(b.Context(), top, path)
				if err != nil {
					b.Fatal(err)
				}
				n.Close()
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	top := served(b)
	_, d := deep(b, top, "dir", 3)
	if _, err := d.Create(b.Context(), "file.go"); err != nil {
		b.Fatal(err)
	}
	ctx := vfs.Trying()
	b.ReportAllocs()
	for b.Loop() {
		n, err := d.Lookup(ctx, "file.go")
		if err != nil {
			b.Fatal(err)
		}
		n.Close()
	}
}

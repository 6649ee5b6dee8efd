package membrane_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

func TestOpen(t *testing.T) {
	d, l, _, _ := check.Metered(t, meter.Limits{meter.Nodes: 7, meter.Streams: 1})
	open := func(what string, want int64) {
		t.Helper()
		if got := check.UsageOf(l).Open; got != want {
			t.Errorf("%s: %d open, want %d", what, got, want)
		}
	}
	open("the root", 0)
	var closers []io.Closer
	keep := func(what string, n io.Closer, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		closers = append(closers, n)
		open(what, int64(len(closers)))
	}
	a, err := d.Lookup(t.Context(), "a")
	keep("lookup", a, err)
	ro, err := membrane.ReadOnlyDir(d)
	keep("readOnly", ro, err)
	f, err := vfs.WalkFile(t.Context(), d, "a/b/f")
	keep("walk", f, err)
	c, err := vfs.Open(t.Context(), f)
	check.OK(t, err)
	if n := check.UsageOf(l).Streams; n != 1 {
		t.Errorf("a content held open: %d streams", n)
	}
	_, err = vfs.Open(t.Context(), f)
	check.Is(t, "another content", err, vfs.Limit)
	_, err = d.Replace(t.Context(), "f", strings.NewReader("x"), vfs.If{})
	check.Is(t, "a whole-file write beside it", err, vfs.Limit)
	check.OK(t, c.Close())
	check.OK(t, c.Close())
	if n := check.UsageOf(l).Streams; n != 0 {
		t.Errorf("a content closed: %d streams", n)
	}
	made, err := d.Create(t.Context(), "made")
	keep("create", made, err)
	dir, err := d.Mkdir(t.Context(), "dir")
	keep("mkdir", dir, err)
	r, control, err := membrane.RevocableDir(d)
	if err != nil {
		t.Fatal(err)
	}
	closers = append(closers, r)
	keep("revocable", releaser{control}, nil)

	_, err = d.Lookup(t.Context(), "f")
	check.Is(t, "one more", err, vfs.Limit)
	_, err = d.Create(t.Context(), "another")
	check.Is(t, "create", err, vfs.Limit)
	_, _, err = membrane.RevocableFile(made)
	check.Is(t, "revocable", err, vfs.Limit)
	_, err = membrane.ReadOnlyDir(d)
	check.Is(t, "readOnly", err, vfs.Limit)
	check.Is(t, "no file was made", d.Remove(t.Context(), "another", vfs.If{}), vfs.NotFound)
	open("refused", 7)
	_, err = ro.Lookup(t.Context(), "..")
	check.Is(t, "failing", err, vfs.Invalid)
	for i, c := range closers {
		check.OK(t, c.Close())
		check.OK(t, c.Close())
		open("closed", int64(len(closers)-1-i))
	}
}

// A node at a long path counts for more while it is open.
func TestOpenLongPath(t *testing.T) {
	l, small := check.NewMeter(meter.Limits{meter.Nodes: 1000}), check.NewMeter(meter.Limits{meter.Nodes: 17})
	d := membrane.Guarded(memory.New(memory.Limits{}).Root(), nil, membrane.Guard{Meter: l}, membrane.Guard{Meter: small})
	top := d
	var dirs []vfs.Dir
	var costs []int64
	open := func(what string) {
		t.Helper()
		want := int64(0)
		for _, c := range costs {
			want += c
		}
		if a, b := check.UsageOf(l).Open, check.UsageOf(small).Open; a != want || b != want {
			t.Errorf("%s: %d and %d, want %d", what, a, b, want)
		}
	}
	for i := range 5 { // paths of 127, 255, 383 bytes and so on
		sub, err := d.Mkdir(t.Context(), strings.Repeat("n", 127))
		check.OK(t, err)
		d, dirs, costs = sub, append(dirs, sub), append(costs, []int64{1, 1, 2, 2, 3}[i])
		open("mkdir")
	}
	f, err := d.Create(t.Context(), strings.Repeat("f", 128)) // 768 bytes
	check.OK(t, err)
	costs = append(costs, 3)
	open("create")
	_, _, err = membrane.RevocableFile(f)
	check.Is(t, "one that would be too many, though its gate were not", err, vfs.Limit)
	open("refused")
	ro, err := membrane.ReadOnlyFile(f)
	check.OK(t, err)
	costs = append(costs, 3)
	open("read-only")
	_, err = d.Lookup(t.Context(), strings.Repeat("f", 128))
	check.Is(t, "with room for less than it counts for", err, vfs.Limit)
	_, err = d.Mkdir(t.Context(), strings.Repeat("m", 200))
	check.Is(t, "one more made", err, vfs.Limit)
	short, err := membrane.ReadOnlyDir(top)
	check.OK(t, err)
	costs = append(costs, 1)
	open("with room for one")
	for _, n := range []vfs.Node{short, ro, f} {
		check.OK(t, n.Close())
		check.OK(t, n.Close())
		costs = costs[:len(costs)-1]
		open("closed")
	}
	r, c, err := membrane.RevocableDir(dirs[4])
	check.OK(t, err)
	costs = append(costs, 6)
	open("revocable")
	check.OK(t, r.Close())
	c.Release()
	costs = costs[:5]
	open("released")
	for i, d := range dirs {
		check.OK(t, d.Close())
		costs[i] = 0
	}
	open("all closed")
}

type releaser struct{ c *membrane.Control }

func (r releaser) Close() error {
	r.c.Release()
	return nil
}

// TestOpenReturnsToZero tries everything at once, including what fails.
func TestOpenReturnsToZero(t *testing.T) {
	d, l, plan, _ := check.Metered(t, meter.Limits{meter.Nodes: 6})
	plan.Fail(faultfs.Lookup, faultfs.After, 7, vfs.Busy)
	plan.Fail(faultfs.Open, faultfs.After, 2, vfs.Busy)
	plan.Fail(faultfs.Create, faultfs.After, 2, vfs.Busy)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, path := range []string{"f", "l", "a/b/c/f", "missing", "a/f/x"} {
					f, err := vfs.WalkFile(t.Context(), d, path)
					if err != nil {
						continue
					}
					if c, err := vfs.Open(t.Context(), f); err == nil {
						c.Close()
					}
					f.Close()
				}
				if f, err := d.Create(t.Context(), "made"); err == nil {
					f.Close()
				}
				d.Remove(t.Context(), "made", vfs.If{})
			}
		})
	}
	wg.Wait()
	if u := check.UsageOf(l); u.Open != 0 {
		t.Errorf("%+v", u)
	}
}

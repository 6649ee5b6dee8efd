package overlay_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/overlay"
)

// filled is an overlay whose upper store has no byte or node left.
func filled(t *testing.T, limits memory.Limits) *bench {
	b := &bench{T: t, lower: lowerOf(t, project), upper: memory.New(limits)}
	var err error
	b.o, err = overlay.New(t.Context(), b.lower, b.upper.Root(), overlay.Options{Nodes: 400})
	b.must(err)
	b.root = b.o.Root()
	b.remove(b.root, "src/sub")
	b.put(b.root, "doc", "changed")
	b.mkdir(b.root, "new")
	for i := 0; err == nil; i++ {
		_, err = vfs.Put(t.Context(), b.root, fmt.Sprintf("new/f%d", i), strings.NewReader(strings.Repeat("x", 900)), vfs.If{})
	}
	if vfs.CodeOf(err) != vfs.Quota {
		t.Fatalf("filling: %v, want quota", err)
	}
	for i := 0; err == nil || vfs.CodeOf(err) == vfs.Quota && i < 1; i++ {
		_, err = b.root.Mkdir(t.Context(), fmt.Sprintf("d%d", i))
	}
	f, err := vfs.WalkFile(t.Context(), b.root, "new/f0")
	b.must(err)
	defer f.Close()
	for n := int64(1); limits.Bytes > 0; n++ { // to the last byte
		if err := f.Truncate(t.Context(), 900+n, vfs.If{}); err != nil {
			break
		}
	}
	return b
}

// TestFull applies and drops the changes of a full upper store, in every way.
func TestFull(t *testing.T) {
	for name, limits := range map[string]memory.Limits{"bytes": {Bytes: 40 << 10}, "nodes": {Nodes: 40}, "both": {Bytes: 40 << 10, Nodes: 20}} {
		for what, do := range map[string]func(b *bench) error{
			"revert of all":     func(b *bench) error { return b.o.Revert(b.Context(), nil) },
			"revert of a file":  func(b *bench) error { return b.o.Revert(b.Context(), []string{"doc"}) },
			"revert of what is": func(b *bench) error { return b.o.Revert(b.Context(), []string{"new"}) },
			"revert of removed": func(b *bench) error { return b.o.Revert(b.Context(), []string{"src"}) },
			"removal":           func(b *bench) error { return b.root.Remove(b.Context(), "doc", vfs.If{}) },
			"removal of new": func(b *bench) error {
				d, err := vfs.WalkDir(b.Context(), b.root, "new")
				if err == nil {
					defer d.Close()
					err = d.Remove(b.Context(), "f1", vfs.If{})
				}
				return err
			},
			"apply of all": func(b *bench) error {
				_, err := b.o.Apply(b.Context(), overlay.ApplyOptions{Journal: memoryUpper(b)})
				return err
			},
			"apply of some": func(b *bench) error {
				_, err := b.o.Apply(b.Context(), overlay.ApplyOptions{Paths: []string{"doc"}, Journal: memoryUpper(b)})
				return err
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				b := filled(t, limits)
				before := len(diffOf(t, b.o))
				view := shape(t, b.root)
				if err := do(b); err != nil {
					t.Fatalf("in a full upper store: %v", err)
				}
				if strings.HasPrefix(what, "apply") {
					same(t, "the overlay", view, shape(t, b.root))
				} else if what != "removal" && len(diffOf(t, b.o)) >= before {
					t.Errorf("there are %d changes, as before", before)
				}
				view = shape(t, b.root)
				b.o = laid(t, b.lower, b.upper.Root())
				b.root = b.o.Root()
				same(t, "opened again", view, shape(t, b.root))
				b.must(b.o.Revert(t.Context(), nil))
				b.changed()
				b.put(b.root, "again", "there is room")
			})
		}
	}
}

// TestBound makes the greatest number of directories that an overlay keeps.
func TestBound(t *testing.T) {
	lower, upper := lowerOf(t, project), memoryUpper(t)
	var root vfs.Dir
	var o *overlay.Overlay
	open := func() {
		var err error
		if o, err = overlay.New(t.Context(), lower, upper, overlay.Options{Nodes: 20}); err != nil {
			t.Fatal(err)
		}
		root = o.Root()
	}
	open()
	fill := func() (n int) {
		for ; ; n++ {
			d, err := root.Mkdir(t.Context(), fmt.Sprintf("d%d", n))
			if err != nil {
				if vfs.CodeOf(err) != vfs.Quota {
					t.Fatalf("Mkdir: %v, want quota", err)
				}
				return n
			}
			d.Close()
			if err := root.Rename(t.Context(), fmt.Sprintf("d%d", n), root, "moved", vfs.If{}, vfs.If{}); err != nil {
				return n + 1 // the bound is near
			}
			if err := root.Rename(t.Context(), "moved", root, fmt.Sprintf("d%d", n), vfs.If{}, vfs.If{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := fill(); n < 19 || n > 20 {
		t.Errorf("%d directories fit, want 20", n)
	}
	open()
	if _, err := root.Mkdir(t.Context(), "more"); err == nil {
		if _, err = root.Mkdir(t.Context(), "still"); vfs.CodeOf(err) != vfs.Quota {
			t.Errorf("Mkdir after a restart: %v, want quota", err)
		}
	} else if vfs.CodeOf(err) != vfs.Quota {
		t.Errorf("Mkdir after a restart: %v, want quota", err)
	}
	if err := root.Remove(t.Context(), "d3", vfs.If{}); err != nil {
		t.Errorf("Remove at the bound: %v", err)
	}
	if err := o.Revert(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := fill(); n < 19 || n > 20 {
		t.Errorf("%d directories fit after a revert, want 20", n)
	}
	if _, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)}); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Mkdir(t.Context(), "more"); err != nil {
		t.Errorf("Mkdir after an apply: %v", err)
	}
}

// TestCopyUnpaid: a guest without room for a copy writes in place to a large file of the
// lower tree. Nothing of the file is copied, however many try at once.
func TestCopyUnpaid(t *testing.T) {
	const size = 1 << 20
	for name, test := range map[string]struct {
		allowed int64
		done    int // of the files
	}{"too little": {1 << 10, 0}, "for one at a time": {size + size/2, 8}} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(memory.Limits{})
			for i := range 8 {
				if _, err := vfs.Put(t.Context(), store.Root(), fmt.Sprint(i), bytes.NewReader(make([]byte, size)), vfs.If{}); err != nil {
					t.Fatal(err)
				}
			}
			staged := &counter{Dir: memoryUpper(t)}
			o := laid(t, store.Root(), staged)
			root := membrane.Guarded(o.Root(), nil, membrane.Guard{Meter: meter.New("test", "this grant", meter.Limits{meter.StoredBytes: test.allowed})})
			var done sync.WaitGroup
			made := make(chan int, 8)
			for i := range 8 {
				done.Go(func() {
					f, err := vfs.WalkFile(t.Context(), root, fmt.Sprint(i))
					if err == nil {
						defer f.Close()
						_, err = f.WriteAt(t.Context(), []byte("x"), 0, vfs.If{})
					}
					if err == nil {
						made <- 1
					} else if !errors.Is(err, vfs.Quota) {
						t.Errorf("WriteAt: %v, want quota", err)
					}
				})
			}
			done.Wait()
			if len(made) != test.done {
				t.Errorf("%d files were written, want %d", len(made), test.done)
			}
			if got := staged.bytes.Load(); got > int64(test.done)*size+64<<10 {
				t.Errorf("%d bytes were written to the upper store", got)
			}
			if staged.made.crowd.Load() {
				t.Error("several files were copied at once")
			}
		})
	}
}

// TestFullMoved reverts what was moved, where the upper store is full and an index without
// old records is longer than the one that is there. A revert that finds no room answers
// quota and changes nothing.
func TestFullMoved(t *testing.T) {
	full, long := 0, strings.Repeat("n", 255)
	for i, paths := range [][]string{nil, {"doc", "moved"}, {"doc"}, {"run", "ran"}, {"filling"}, {"src", "long"}, {"now", long + "/now"}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := &bench{T: t, lower: lowerOf(t, project), upper: memory.New(memory.Limits{Bytes: 40 << 10})}
			b.o = laid(t, b.lower, b.upper.Root())
			b.root = b.o.Root()
			b.put(b.root, "doc", "changed")
			b.move("doc", "moved")
			b.move("run", "ran")
			b.move("src", "long")
			b.mkdir(b.root, "d")
			b.move("now", "d/now")
			for i := range 60 {
				b.mkdir(b.root, fmt.Sprintf("d/%d", i))
			}
			b.move("d", long)
			f, err := b.root.Create(t.Context(), "filling")
			b.must(err)
			for n := int64(1 << 14); n > 0; { // to the last byte
				info, err := f.Stat(t.Context())
				b.must(err)
				if err := f.Truncate(t.Context(), info.Size+n, vfs.If{}); err != nil {
					n /= 2
				}
			}
			b.must(f.Close())
			view, changes := shape(t, b.root), len(diffOf(t, b.o))
			err = b.o.Revert(t.Context(), paths)
			switch code := vfs.CodeOf(err); {
			case code == vfs.Quota:
				full++
				same(t, "after a revert without room", view, shape(t, b.root))
				if now := len(diffOf(t, b.o)); now != changes {
					t.Errorf("there are %d changes, and were %d", now, changes)
				}
			case err != nil:
				t.Fatal(err)
			}
			view = shape(t, b.root)
			counted(t, b.o)
			b.o = laid(t, b.lower, b.upper.Root())
			b.root = b.o.Root()
			same(t, "opened again", view, shape(t, b.root))
		})
	}
	if full == 0 {
		t.Error("no revert was without room")
	}
}

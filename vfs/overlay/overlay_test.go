package overlay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// TestLowerChanges changes the lower tree. What the overlay has not changed shows the new
// state.
func TestLowerChanges(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "src/a.go", "ours")
	b.move("src/sub", "moved")
	b.put(b.lower, "src/b.go", "theirs")
	b.put(b.lower, "src/added", "theirs")
	b.put(b.lower, "src/sub/more", "theirs")
	b.remove(b.lower, "run")
	for path, want := range map[string]string{"src/a.go": "ours", "src/b.go": "theirs", "src/added": "theirs", "moved/more": "theirs", "moved/c.go": "package c\n"} {
		if got := text(t, b.root, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if _, err := b.root.Lookup(t.Context(), "run"); vfs.CodeOf(err) != vfs.NotFound {
		t.Errorf("what was removed below: %v", err)
	}
	b.changed("renamed moved from src/sub", "modified src/a.go")
	// A directory that is gone from the lower tree stays if something in it was changed.
	b.remove(b.lower, "src")
	if got := text(t, b.root, "src/a.go"); got != "ours" {
		t.Errorf("a file in a directory that is gone below is %q", got)
	}
	if got := shape(t, b.root); got["src/b.go"] != "" || got["moved/c.go"] != "" {
		t.Errorf("the tree still shows what is gone below: %v", got)
	}
}

// TestQuota checks the declared effect for a file that is copied, and that the upper
// store's limit is passed on.
func TestQuota(t *testing.T) {
	tree := vfstest.Tree{"big": {Data: strings.Repeat("x", 10_000)}}
	b := newBench(t, tree)
	f, err := vfs.WalkFile(t.Context(), b.root, "big")
	b.must(err)
	var most, came vfs.Effect
	ctx := vfs.OnCommit(t.Context(), func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		most = e
		var err error
		came, err = change()
		return came, err
	})
	for _, step := range []struct {
		what       string
		do         func() error
		most, came int64
	}{
		{"the first write", func() error { _, err := f.WriteAt(ctx, []byte("five!"), 0, vfs.If{}); return err }, 10_000, 0},
		{"the second", func() error { _, err := f.WriteAt(ctx, []byte("five!"), 0, vfs.If{}); return err }, 0, 0},
		{"a longer one", func() error { return f.Truncate(ctx, 10_007, vfs.If{}) }, 7, 7},
	} {
		b.must(step.do())
		if most.Bytes != step.most || came.Bytes != step.came {
			t.Errorf("%s: declared %d and came to %d bytes, want %d and %d", step.what, most.Bytes, came.Bytes, step.most, step.came)
		}
	}

	o := laid(t, lowerOf(t, tree), memory.New(memory.Limits{Bytes: 5000}).Root())
	before := picture(t, o.Root())
	f, err = vfs.WalkFile(t.Context(), o.Root(), "big")
	b.must(err)
	if _, err := f.WriteAt(t.Context(), []byte("x"), 0, vfs.If{}); vfs.CodeOf(err) != vfs.Quota {
		t.Errorf("a copy that is too large: %v, want quota", err)
	}
	if _, err := o.Root().Replace(t.Context(), "new", strings.NewReader(strings.Repeat("y", 6000)), vfs.If{}); vfs.CodeOf(err) != vfs.Quota {
		t.Errorf("a file that is too large: %v, want quota", err)
	}
	same(t, "the overlay", before, picture(t, o.Root()))
	b.must(f.Truncate(t.Context(), 10, vfs.If{})) // which needs no more than it keeps
}

// TestCompacts makes many changes with little effect in the end.
func TestCompacts(t *testing.T) {
	b := newBench(t, project)
	for i := range 3000 {
		b.must(vfs.Symlink(t.Context(), b.root, "l", fmt.Sprint(i)))
		b.must(b.root.Remove(t.Context(), "l", vfs.If{}))
	}
	if bytes, _ := b.upper.Usage(); bytes > 100<<10 {
		t.Errorf("the index grew to %d bytes", bytes)
	}
	want := picture(t, b.root)
	same(t, "opened again", want, picture(t, laid(t, b.lower, b.upper.Root()).Root()))
}

func TestForeignUpper(t *testing.T) {
	if _, err := overlay.New(t.Context(), memoryUpper(t), lowerOf(t, project), overlay.Options{}); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("New over somebody else's upper store: %v, want invalid", err)
	}
}

// TestHammer changes an overlay from many goroutines at once.
func TestHammer(t *testing.T) {
	w := newWorld(t, 1)
	journal := memoryUpper(t)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fit := func(what string, err error) {
		if err != nil && (vfs.CodeOf(err) == vfs.Internal || vfs.CodeOf(err) == vfs.Corrupt) && ctx.Err() == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range 3 {
		all.Go(func() {
			mine := &world{t: t, plain: w.plain, random: rand.New(rand.NewPCG(uint64(i), 9))}
			for range 300 {
				what := mine.next()
				_, err := what.do(ctx, w.o.Root(), nil)
				fit(what.what, err)
			}
		})
	}
	all.Go(func() {
		for range 40 {
			_, err := w.o.Diff(ctx, "")
			fit("Diff", err)
			fit("Revert", w.o.Revert(ctx, []string{"a", "c/b"}))
			done, err := w.o.Apply(ctx, overlay.ApplyOptions{Journal: journal})
			fit("Apply", err)
			if done.ID != "" {
				fit("Undo", w.o.Undo(ctx, journal, done.ID))
			}
		}
	})
	all.Go(func() {
		for range 100 {
			fit("reading", draw(ctx, w.o.Root(), "", map[string]string{}))
		}
	})
	all.Wait()
	if _, err := w.o.Apply(ctx, overlay.ApplyOptions{Journal: journal}); err != nil {
		t.Fatal(err)
	}
	same(t, "the lower tree at the end", shape(t, w.o.Root()), shape(t, w.lower.Root()))
}

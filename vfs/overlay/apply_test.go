package overlay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs/diff"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

func TestConflicts(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "doc", "ours")
	b.put(b.root, "new", "ours")
	b.put(b.root, "src/a.go", "ours")
	b.put(b.root, "agreed", "both")
	b.remove(b.root, "src/sub")
	b.remove(b.root, "run")
	b.put(b.lower, "doc", "theirs")
	b.put(b.lower, "new", "theirs")
	b.put(b.lower, "agreed", "both")
	b.put(b.lower, "src/sub/late", "theirs")
	lower, view := shape(t, b.lower), shape(t, b.root)
	_, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok || vfs.CodeOf(err) != vfs.Conflict {
		t.Fatalf("Apply: %v, want conflicts", err)
	}
	got := []string{}
	for _, p := range c.Paths {
		got = append(got, p.Path)
	}
	if want := []string{"doc", "new", "src/sub/late"}; !slices.Equal(got, want) {
		t.Errorf("conflicts at %q, want %q", got, want)
	}
	same(t, "the lower tree", lower, shape(t, b.lower))
	same(t, "the overlay", view, shape(t, b.root))
	// Changes without a conflict can be applied separately, and the others reverted.
	_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Paths: []string{"src/a.go", "run"}, Journal: memoryUpper(t)})
	b.must(err)
	b.must(b.o.Revert(t.Context(), []string{"doc", "new", "src/sub"}))
	same(t, "the lower tree and the overlay", shape(t, b.lower), shape(t, b.root))
}

func TestApplySome(t *testing.T) {
	b := newBench(t, project)
	b.mkdir(b.root, "fresh")
	b.mkdir(b.root, "fresh/deep")
	b.put(b.root, "fresh/deep/f", "f")
	b.put(b.root, "fresh/other", "other")
	b.move("src", "lib")
	b.put(b.root, "lib/a.go", "changed")
	for paths, missing := range map[string]string{"src": "lib", "lib": "src", "lib/a.go": "lib", "src/b.go": "src"} {
		_, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Paths: []string{paths}, Journal: memoryUpper(t)})
		e, ok := errors.AsType[*vfs.Error](err)
		if !ok || e.Code != vfs.Invalid || e.Path != missing {
			t.Errorf("Apply of %s: %v, want invalid that names %s", paths, err, missing)
		}
	}
	view := shape(t, b.root)
	held, err := vfs.WalkFile(t.Context(), b.root, "fresh/deep/f")
	b.must(err)
	_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Paths: []string{"fresh/deep"}, Journal: memoryUpper(t)})
	b.must(err)
	b.changed("added fresh/other", "renamed lib from src", "modified lib/a.go")
	same(t, "the overlay", view, shape(t, b.root))
	if got, err := contentOf(t.Context(), held); err != nil || got != "f" {
		t.Errorf("a file that was open reads %q, %v", got, err)
	}
	if got := shape(t, b.lower); got["fresh/deep/f"] == "" || got["fresh/other"] != "" {
		t.Errorf("the lower tree is %v", got)
	}
	_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Paths: []string{"src", "lib"}, Journal: memoryUpper(t)})
	b.must(err)
	b.changed("added fresh/other")
}

// TestApplyGuarded applies through the guards of that moment, to a tree with something
// that the guest could not see.
func TestApplyGuarded(t *testing.T) {
	tree := vfstest.Tree{".env": {Data: "SECRET"}, "sub/f": {Data: "f"}}
	for name, test := range map[string]struct {
		path  string
		codes []vfs.Code
	}{
		"what is withheld and there":     {".env", []vfs.Code{vfs.Conflict, vfs.Denied}},
		"what is withheld and not there": {"sub/.env", []vfs.Code{vfs.Denied}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tree)
			guarded := func() vfs.Dir { // the guest's view when it worked had other rules
				return membrane.Guarded(b.lower, membrane.NewGate(), deny.Must("**/.env").Guard())
			}
			b.put(b.root, "sub/f", "changed")
			if test.path == ".env" {
				b.remove(b.root, ".env")
			}
			b.put(b.root, test.path, "MINE")
			before := shape(t, b.lower)
			_, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Target: guarded(), Journal: memoryUpper(t)})
			if !slices.Contains(test.codes, vfs.CodeOf(err)) || !strings.Contains(err.Error(), test.path) {
				t.Errorf("Apply: %v, want %v that names %s", err, test.codes, test.path)
			}
			same(t, "the lower tree", before, shape(t, b.lower))
			b.must(b.o.Revert(t.Context(), []string{test.path}))
			_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Target: guarded(), Journal: memoryUpper(t)})
			b.must(err)
		})
	}
}

func TestRevert(t *testing.T) {
	b := newBench(t, project)
	before := shape(t, b.root)
	b.put(b.root, "doc", "x")
	b.mkdir(b.root, "fresh")
	b.put(b.root, "fresh/f", "x")
	b.move("src", "fresh/src")
	b.put(b.root, "fresh/src/a.go", "x")
	fresh, err := vfs.WalkDir(t.Context(), b.root, "fresh")
	b.must(err)
	doc, err := vfs.WalkFile(t.Context(), b.root, "doc")
	b.must(err)
	if err := b.o.Revert(t.Context(), []string{"fresh"}); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("Revert of one place of what was moved: %v", err)
	}
	b.must(b.o.Revert(t.Context(), []string{"fresh/src/a.go"}))
	b.changed("modified doc", "added fresh", "added fresh/f", "renamed fresh/src from src")
	b.must(b.o.Revert(t.Context(), nil))
	same(t, "the overlay", before, shape(t, b.root))
	if _, err := fresh.Stat(t.Context()); vfs.CodeOf(err) != vfs.Stale {
		t.Errorf("a directory that was reverted: %v", err)
	}
	if got, err := contentOf(t.Context(), doc); err != nil || got != "one\ntwo\nthree\n" {
		t.Errorf("a file that was reverted reads %q, %v", got, err)
	}
	if bytes, nodes := b.upper.Usage(); nodes != 3 || bytes > 16<<10+2000 {
		t.Errorf("the upper store keeps %d bytes, %d nodes", bytes, nodes)
	}
}

// TestApplyReadOnly lays an overlay over a tree that cannot be written. It can be
// changed, but not applied.
func TestApplyReadOnly(t *testing.T) {
	b := newBench(t, project)
	gate := membrane.NewGate()
	if err := gate.SetWritable(false); err != nil {
		t.Fatal(err)
	}
	o := laid(t, membrane.Guarded(b.lower, gate), memoryUpper(t))
	b.put(o.Root(), "doc", "changed")
	b.remove(o.Root(), "src")
	before, view := shape(t, b.lower), shape(t, o.Root())
	if _, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)}); vfs.CodeOf(err) != vfs.ReadOnly {
		t.Errorf("Apply: %v, want readOnly", err)
	}
	same(t, "the lower tree", before, shape(t, b.lower))
	same(t, "the overlay", view, shape(t, o.Root()))
}

// TestMadeAgain applies and reverts parts of a directory that was removed and made again.
func TestMadeAgain(t *testing.T) {
	again := func(t *testing.T) *bench {
		b := newBench(t, project)
		b.remove(b.root, "src")
		b.mkdir(b.root, "src")
		b.put(b.root, "src/a.go", "ours")
		return b
	}
	t.Run("revert", func(t *testing.T) {
		b := again(t)
		err := b.o.Revert(t.Context(), []string{"src/sub/c.go"})
		if e, ok := errors.AsType[*vfs.Error](err); !ok || e.Code != vfs.Invalid || e.Path != "src/sub" {
			t.Errorf("Revert below what is removed: %v, want invalid that names it", err)
		}
		b.must(b.o.Revert(t.Context(), []string{"src/b.go", "src/a.go"}))
		b.changed("removed src/sub", "removed src/sub/c.go")
		for path, want := range map[string]string{"src/a.go": "package a\n", "src/b.go": "package b\n"} {
			if got := text(t, b.root, path); got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
		b.put(b.root, "src/b.go", "changed again")
		b.o = laid(t, b.lower, b.upper.Root())
		b.changed("modified src/b.go", "removed src/sub", "removed src/sub/c.go")
		view := shape(t, b.o.Root())
		_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
		b.must(err)
		same(t, "the lower tree", view, shape(t, b.lower))
	})
	t.Run("apply", func(t *testing.T) {
		b := again(t)
		view := shape(t, b.root)
		_, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Paths: []string{"src/a.go"}, Journal: memoryUpper(t)})
		b.must(err)
		if got := text(t, b.lower, "src/a.go"); got != "ours" {
			t.Errorf("the lower file is %q", got)
		}
		b.changed("removed src/b.go", "removed src/sub", "removed src/sub/c.go")
		same(t, "the overlay", view, shape(t, b.root))
		b.put(b.root, "src/a.go", "ours again")
		b.changed("modified src/a.go", "removed src/b.go", "removed src/sub", "removed src/sub/c.go")
		view = shape(t, b.root)
		_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
		b.must(err)
		same(t, "the lower tree", view, shape(t, b.lower))
	})
}

// TestRevertOutOfMoved reverts what was moved out of a directory that was itself moved.
func TestRevertOutOfMoved(t *testing.T) {
	b := newBench(t, project)
	b.move("src", "lib")
	b.move("lib/sub", "hollow/sub")
	b.put(b.root, "lib/sub", "in its place")
	err := b.o.Revert(t.Context(), []string{"hollow/sub", "src/sub"})
	if e, ok := errors.AsType[*vfs.Error](err); !ok || e.Code != vfs.Invalid || e.Path != "lib/sub" {
		t.Errorf("Revert of what has no place: %v, want invalid that names lib/sub", err)
	}
	b.remove(b.root, "lib/sub")
	b.must(b.o.Revert(t.Context(), []string{"hollow/sub", "src/sub"}))
	b.changed("renamed lib from src")
	b.o = laid(t, b.lower, b.upper.Root())
	b.changed("renamed lib from src")
	view := shape(t, b.o.Root())
	_, err = b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
	b.must(err)
	same(t, "the lower tree", view, shape(t, b.lower))
}

// TestUndoConflict undoes an apply after which the lower tree was changed.
func TestUndoConflict(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "doc", "ours")
	b.put(b.root, "new", "ours")
	b.remove(b.root, "src/sub")
	journal := memoryUpper(t)
	done, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: journal})
	b.must(err)
	b.put(b.lower, "doc", "theirs")
	b.mkdir(b.lower, "src/sub")
	b.put(b.lower, "src/sub/c.go", "theirs")
	before := shape(t, b.lower)
	err = b.o.Undo(t.Context(), journal, done.ID)
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok || len(c.Paths) != 2 || c.Paths[0].Path != "doc" || c.Paths[1].Path != "src/sub/c.go" {
		t.Fatalf("Undo: %v, want conflicts at doc and src/sub/c.go", err)
	}
	same(t, "the lower tree", before, shape(t, b.lower))
	same(t, "the overlay", before, shape(t, b.root))
	if err := b.o.Undo(t.Context(), journal, "0123"); vfs.CodeOf(err) == "" || vfs.CodeOf(err) == vfs.Internal {
		t.Errorf("Undo of no batch: %v", err)
	}
}

// TestNobodySeesHalfAnApply looks at the overlay between two changes of the lower tree.
func TestNobodySeesHalfAnApply(t *testing.T) {
	store := memory.New(memory.Limits{})
	fill(t, store.Root(), project)
	plan := &faultfs.Plan{}
	o := laid(t, faultfs.New(store.Root(), plan), memoryUpper(t))
	root := o.Root()
	for _, path := range []string{"doc", "run"} {
		if _, err := vfs.Put(t.Context(), root, path, strings.NewReader("new"), vfs.If{}); err != nil {
			t.Fatal(err)
		}
	}
	made, err := root.Mkdir(t.Context(), "made") // of which the lower tree is not asked
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if _, err := made.Stat(vfs.Trying()); err != nil {
		t.Fatal(err)
	}
	pause := plan.Pause(faultfs.Install, faultfs.Before, 2)
	done := make(chan error)
	go func() {
		_, err := o.Apply(context.Background(), overlay.ApplyOptions{Journal: memoryUpper(t)})
		done <- err
	}()
	<-pause.Reached()
	if _, err := made.Stat(vfs.Trying()); !errors.Is(err, vfs.ErrWouldBlock) {
		t.Errorf("in the midst of an apply the overlay answers %v, and does not wait", err)
	}
	pause.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := root.Stat(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRevertBeneathWhatMoved reverts a path of the lower tree that was removed there and
// is shown elsewhere. That stays, and so does what is known of it.
func TestRevertBeneathWhatMoved(t *testing.T) {
	b := newBench(t, project)
	b.move("src", "lib")
	b.remove(b.root, "lib/sub")
	in, err := vfs.WalkDir(t.Context(), b.root, "lib")
	b.must(err)
	defer in.Close()
	b.must(vfs.Symlink(t.Context(), in, "sub", "x"))
	b.must(b.o.Revert(t.Context(), []string{"src/sub"}))
	want := shape(t, b.root)
	if _, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)}); err != nil {
		t.Fatal(err)
	}
	same(t, "the lower tree", want, shape(t, b.lower))
}

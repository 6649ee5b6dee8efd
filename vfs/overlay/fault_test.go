package overlay_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/overlay"
)

// TestUpperFails makes every operation of the upper store fail in turn: what answers an
// error has changed nothing, now or after a restart. The one exception is a change of
// names that was made and could not be written to disk.
func TestUpperFails(t *testing.T) {
	broken := vfs.Errorf(vfs.Quota, "the upper store is full")
	put := func(path, data string) func(context.Context, vfs.Dir) error {
		return func(ctx context.Context, d vfs.Dir) error {
			_, err := vfs.Put(ctx, d, path, strings.NewReader(data), vfs.If{})
			return err
		}
	}
	for name, do := range map[string]func(context.Context, vfs.Dir) error{
		"Create":                      func(ctx context.Context, d vfs.Dir) error { _, err := d.Create(ctx, "new"); return err },
		"Mkdir":                       func(ctx context.Context, d vfs.Dir) error { _, err := d.Mkdir(ctx, "new"); return err },
		"Symlink":                     func(ctx context.Context, d vfs.Dir) error { return vfs.Symlink(ctx, d, "new", "a") },
		"Replace":                     put("c/b/a", "changed"),
		"Replace of what was written": put("written", "changed"),
		"Remove":                      func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, "b", vfs.If{}) },
		"Remove of what was written":  func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, "written", vfs.If{}) },
		"Rename":                      func(ctx context.Context, d vfs.Dir) error { return d.Rename(ctx, "c", d, "new", vfs.If{}, vfs.If{}) },
		"WriteAt": func(ctx context.Context, d vfs.Dir) error {
			f, err := vfs.WalkFile(ctx, d, "a")
			if err == nil {
				_, err = f.WriteAt(ctx, []byte("x"), 3, vfs.If{})
			}
			return err
		},
		"Truncate": func(ctx context.Context, d vfs.Dir) error {
			f, err := vfs.WalkFile(ctx, d, "a")
			if err == nil {
				err = f.Truncate(ctx, 3, vfs.If{})
			}
			return err
		},
	} {
		model := laid(t, lowerOf(t, modelTree), memoryUpper(t))
		for _, do := range []func(context.Context, vfs.Dir) error{put("written", "old"), do} {
			if err := do(t.Context(), model.Root()); err != nil {
				t.Fatal(err)
			}
		}
		made := shape(t, model.Root())
		for _, stage := range []faultfs.Stage{faultfs.Before, faultfs.Commit, faultfs.After} {
			unsynced := 0
			if slices.Contains([]string{"Create", "Mkdir", "Symlink", "Remove", "Remove of what was written", "Rename"}, name) {
				unsynced = 1
			}
			for n := 1; ; n++ {
				lower, upper := lowerOf(t, modelTree), memoryUpper(t)
				plan := &faultfs.Plan{}
				o := laid(t, lower, faultfs.New(upper, plan))
				if err := put("written", "old")(t.Context(), o.Root()); err != nil {
					t.Fatal(err)
				}
				before := shape(t, o.Root())
				plan.Fail(faultfs.Any, stage, n, broken)
				err := do(t.Context(), o.Root())
				plan.Clear()
				after := shape(t, o.Root())
				if err != nil {
					if vfs.CodeOf(err) != vfs.Quota {
						t.Errorf("%s, operation %d failing: %v, want what the upper store says", name, n, err)
					}
					if unsynced > 0 && differ(made, after) == "" {
						unsynced--
					} else {
						same(t, name+" that failed", before, after)
					}
				}
				same(t, name+", opened again", after, shape(t, laid(t, lower, upper).Root()))
				if err == nil && n > 30 {
					break
				}
				if n == 1 && err == nil && stage == faultfs.Before {
					t.Errorf("%s does not notice that the upper store fails", name)
				}
			}
		}
	}
}

// TestUndoFails: an undo fails in the lower tree. Nothing has changed, and another try
// succeeds.
func TestUndoFails(t *testing.T) {
	store := memory.New(memory.Limits{})
	fill(t, store.Root(), modelTree)
	plan := &faultfs.Plan{}
	o := laid(t, faultfs.New(store.Root(), plan), memoryUpper(t))
	work(t, o.Root())
	journal := memoryUpper(t)
	original := shape(t, store.Root())
	done, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	applied := shape(t, store.Root())
	for _, op := range []faultfs.Op{faultfs.Mkdir, faultfs.Remove} {
		plan.Fail(op, faultfs.Before, 1, vfs.Errorf(vfs.Busy, "in use"))
		if err := o.Undo(t.Context(), journal, done.ID); vfs.CodeOf(err) != vfs.Busy {
			t.Fatalf("Undo: %v, want what the lower tree says", err)
		}
		same(t, "the lower tree", applied, shape(t, store.Root()))
		same(t, "the overlay", applied, shape(t, o.Root()))
		if left := diffOf(t, o); len(left) > 0 {
			t.Fatalf("after an undo that failed there is %v", left)
		}
	}
	if err := o.Undo(t.Context(), journal, done.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "the lower tree after an undo", original, shape(t, store.Root()))
	same(t, "the overlay after an undo", applied, shape(t, o.Root()))
}

// TestToldLate: a commit answers an error after its change was made. The change stays
// made.
func TestToldLate(t *testing.T) {
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		e, err := change()
		if err == nil {
			err = vfs.Errorf(vfs.Busy, "too late")
		}
		return e, err
	})
	lower, upper := lowerOf(t, modelTree), memoryUpper(t)
	root := laid(t, lower, upper).Root()
	_, err := root.Create(ctx, "created")
	wantBusy := func(what string, err error) {
		t.Helper()
		if vfs.CodeOf(err) != vfs.Busy {
			t.Errorf("%s: %v, want busy", what, err)
		}
	}
	wantBusy("Create", err)
	_, err = root.Replace(ctx, "a", strings.NewReader("replaced"), vfs.If{})
	wantBusy("Replace", err)
	f, err := vfs.WalkFile(t.Context(), root, "b")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(ctx, []byte("W"), 0, vfs.If{})
	wantBusy("WriteAt", err)
	for path, want := range map[string]string{"created": "", "a": "replaced", "b": "Wontent of b"} {
		if got := text(t, root, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	same(t, "opened again", shape(t, root), shape(t, laid(t, lower, upper).Root()))
}

// TestLastingIsSynced: the upper store fails to sync. Then the answer to a change of
// names, a replacement or a revert would not be durable.
func TestLastingIsSynced(t *testing.T) {
	broken := vfs.Errorf(vfs.Internal, "the disk is gone")
	for name, do := range map[string]func(context.Context, *overlay.Overlay) error{
		"Replace": func(ctx context.Context, o *overlay.Overlay) error {
			_, err := o.Root().Replace(ctx, "a", strings.NewReader("new"), vfs.If{})
			return err
		},
		"Rename": func(ctx context.Context, o *overlay.Overlay) error {
			d := o.Root()
			f, err := vfs.WalkFile(ctx, d, "a")
			if err != nil {
				return err
			}
			v, err := vfs.VersionOf(ctx, f)
			if err != nil {
				return err
			}
			return d.Rename(ctx, "b", d, "a", vfs.If{}, vfs.If{Is: v})
		},
		"Revert":  func(ctx context.Context, o *overlay.Overlay) error { return o.Revert(ctx, nil) },
		"Mkdir":   func(ctx context.Context, o *overlay.Overlay) error { return closing(o.Root().Mkdir(ctx, "new")) },
		"Create":  func(ctx context.Context, o *overlay.Overlay) error { return closing(o.Root().Create(ctx, "new")) },
		"Symlink": func(ctx context.Context, o *overlay.Overlay) error { return vfs.Symlink(ctx, o.Root(), "new", "a") },
		"Remove":  func(ctx context.Context, o *overlay.Overlay) error { return o.Root().Remove(ctx, "made", vfs.If{}) },
		"a plain Rename": func(ctx context.Context, o *overlay.Overlay) error {
			return o.Root().Rename(ctx, "c", o.Root(), "moved", vfs.If{}, vfs.If{})
		},
	} {
		plan := &faultfs.Plan{}
		o := laid(t, lowerOf(t, modelTree), faultfs.New(memoryUpper(t), plan))
		if _, err := o.Root().Mkdir(t.Context(), "made"); err != nil {
			t.Fatal(err)
		}
		plan.Fail(faultfs.Sync, faultfs.Before, 0, broken)
		if err := do(t.Context(), o); vfs.CodeOf(err) != vfs.Internal {
			t.Errorf("%s with an upper store that cannot sync: %v, want what it says", name, err)
		}
	}
}

// TestFreedLater: a content is kept until the record that releases it is as durable. The
// last record may be lost, and then the content is needed.
func TestFreedLater(t *testing.T) {
	upper, plan := memoryUpper(t), &faultfs.Plan{}
	o := laid(t, lowerOf(t, modelTree), faultfs.New(upper, plan))
	root := o.Root()
	if _, err := vfs.Put(t.Context(), root, "new", strings.NewReader("x"), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	contents := func() (n int) {
		d, err := vfs.WalkDir(t.Context(), upper, "data")
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range d.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	plan.Fail(faultfs.Sync, faultfs.Before, 0, vfs.Busy)
	if err := root.Remove(t.Context(), "new", vfs.If{}); vfs.CodeOf(err) != vfs.Busy {
		t.Fatalf("a removal that cannot be written to disk: %v, want busy", err)
	}
	if n := contents(); n != 1 {
		t.Errorf("%d contents are left while the record may be lost, want 1", n)
	}
	plan.Clear()
	if _, err := vfs.Put(t.Context(), root, "new", strings.NewReader("y"), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if err := root.Remove(t.Context(), "new", vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if n := contents(); n != 1 { // the first goes at the next start
		t.Errorf("%d contents are left, want 1", n)
	}
}

// TestLostContent reopens an overlay that has lost a content.
func TestLostContent(t *testing.T) {
	lower, upper := lowerOf(t, modelTree), memoryUpper(t)
	if _, err := vfs.Put(t.Context(), laid(t, lower, upper).Root(), "new", strings.NewReader("x"), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	d, err := vfs.WalkDir(t.Context(), upper, "data")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range d.List(t.Context()) {
		if err == nil {
			err = d.Remove(t.Context(), e.Name, vfs.If{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := overlay.New(t.Context(), lower, upper, overlay.Options{}); vfs.CodeOf(err) != vfs.Corrupt {
		t.Errorf("New with a content missing: %v, want corrupt", err)
	}
}

// TestCopyOvertaken changes a file of the lower tree after it was copied for a write, but
// before the write. The write goes to the new content.
func TestCopyOvertaken(t *testing.T) {
	lower, plan := lowerOf(t, modelTree), &faultfs.Plan{}
	o := laid(t, lower, faultfs.New(memoryUpper(t), plan))
	f, err := vfs.WalkFile(t.Context(), o.Root(), "a")
	if err != nil {
		t.Fatal(err)
	}
	pause := plan.Pause(faultfs.Replace, faultfs.After, 1)
	go func() {
		defer pause.Resume()
		<-pause.Reached()
		if _, err := vfs.Put(context.Background(), lower, "a", strings.NewReader("CONTENT OF A"), vfs.If{}); err != nil {
			t.Error(err)
		}
	}()
	if _, err := f.WriteAt(t.Context(), []byte("written"), 0, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if got := text(t, o.Root(), "a"); got != "written OF A" {
		t.Errorf("the file is %q; the write was made to what is there no more", got)
	}
}

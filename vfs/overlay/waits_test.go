package overlay_test

import (
	"context"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
)

func TestWaits(t *testing.T) {
	lower, upper := lowerOf(t, modelTree), memoryUpper(t)
	want := func(what string, want bool) {
		t.Helper()
		if got, settling, err := overlay.Waits(t.Context(), upper); err != nil || got != want || settling {
			t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		}
	}
	want("an empty store", false)
	o := laid(t, lower, upper)
	want("a new overlay", false)
	put := func(d vfs.Dir, data string) {
		t.Helper()
		if _, err := vfs.Put(t.Context(), d, "a", strings.NewReader(data), vfs.If{}); err != nil {
			t.Fatal(err)
		}
	}
	put(o.Root(), "changed")
	want("a file that was written", true)
	put(lower, "changed")
	if all := diffOf(t, o); len(all) > 0 {
		t.Fatalf("vacuous: %v", all)
	}
	want("a change that the lower tree has by now", true)
	if err := o.Revert(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want("after a revert", false)
	work(t, o.Root())
	want("after changes of every kind", true)
	if _, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)}); err != nil {
		t.Fatal(err)
	}
	want("after an apply", false)
}

// A store that a newer version wrote is left as it is.
func TestNewer(t *testing.T) {
	upper := memoryUpper(t)
	fill(t, upper, treeOf(t, lowerOf(t, nil)))
	const index = "capd overlay 2\nwhat this version does not know\n"
	if _, err := upper.Replace(t.Context(), "index", strings.NewReader(index), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := overlay.Waits(t.Context(), upper); vfs.CodeOf(err) != vfs.Unsupported {
		t.Errorf("Waits: %v, want unsupported", err)
	}
	if _, err := overlay.New(t.Context(), lowerOf(t, modelTree), upper, overlay.Options{}); vfs.CodeOf(err) != vfs.Unsupported {
		t.Errorf("New: %v, want unsupported", err)
	}
	if got := text(t, upper, "index"); got != index {
		t.Errorf("the index is %q now", got)
	}
}

// The growth of an overlay that is opened again is what a revert of all frees.
func TestGrowth(t *testing.T) {
	lower, upper := lowerOf(t, modelTree), memoryUpper(t)
	work(t, laid(t, lower, upper).Root())
	o := laid(t, lower, upper)
	grown, err := o.Growth(t.Context())
	if err != nil || grown.Bytes <= 0 || grown.Nodes == 0 {
		t.Fatalf("it grew by %v, %v", grown, err)
	}
	var freed vfs.Effect
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (e vfs.Effect, err error) {
		freed, err = change()
		return freed, err
	})
	if err := o.Revert(ctx, nil); err != nil || freed.Bytes != -grown.Bytes || freed.Nodes != -grown.Nodes {
		t.Errorf("it grew by %v, and the revert (%v) freed %v", grown, err, freed)
	}
	if grown, err := o.Growth(context.Background()); err != nil || grown != (vfs.Effect{}) {
		t.Errorf("after the revert: %v, %v", grown, err)
	}
}

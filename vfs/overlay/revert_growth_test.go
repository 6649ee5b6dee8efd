package overlay_test

import (
	"context"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
)

// A revert gives back just what the changes took, also of a directory that moved with
// directories in it that were open.
func TestRevertGrowth(t *testing.T) {
	var grown vfs.Effect
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		e, err := change()
		grown.Bytes += e.Bytes
		grown.Nodes += e.Nodes
		return e, err
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(ctx context.Context, d vfs.Dir, path, data string) {
		t.Helper()
		_, err := vfs.Put(ctx, d, path, strings.NewReader(data), vfs.If{})
		must(err)
	}
	lower := memory.New(memory.Limits{}).Root()
	src, err := lower.Mkdir(t.Context(), "src")
	must(err)
	_, err = src.Mkdir(t.Context(), "x")
	must(err)
	put(t.Context(), lower, "f", "f")
	put(t.Context(), lower, "src/x/y", "y")
	o, err := overlay.New(t.Context(), lower, memory.New(memory.Limits{}).Root(), overlay.Options{})
	must(err)
	defer o.Close()
	root := o.Root()
	put(ctx, root, "f", "longer")
	d, err := root.Mkdir(ctx, "d")
	must(err)
	must(root.Rename(ctx, "src", d, "moved", vfs.If{}, vfs.If{}))
	put(ctx, root, "d/moved/x/new", "new")
	put(ctx, root, "d/moved/x/y", "changed")
	if grown == (vfs.Effect{}) {
		t.Fatal("nothing was counted")
	}
	must(o.Revert(ctx, nil))
	if grown != (vfs.Effect{}) {
		t.Errorf("after the revert the tree has grown by %+v", grown)
	}
}

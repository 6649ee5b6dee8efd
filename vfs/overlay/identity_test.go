package overlay_test

import (
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest/check"
)

// A directory that shows one of the tree below has its identity, wherever the overlay has
// moved it. One that was made in the overlay has none before it is applied.
func TestIdentity(t *testing.T) {
	ctx := t.Context()
	lower := physicalUpper(t)
	for _, name := range []string{"kept", "moved", "again"} {
		_, err := lower.Mkdir(ctx, name)
		check.OK(t, err)
	}
	o := laid(t, lower, memoryUpper(t))
	root := o.Root()
	check.OK(t, root.Rename(ctx, "moved", root, "there", vfs.If{}, vfs.If{}))
	check.OK(t, root.Remove(ctx, "again", vfs.If{}))
	_, err := root.Mkdir(ctx, "again")
	check.OK(t, err)
	for over, below := range map[vfs.Dir]vfs.Dir{
		root:                          lower,
		check.DirAt(t, root, "kept"):  check.DirAt(t, lower, "kept"),
		check.DirAt(t, root, "there"): check.DirAt(t, lower, "moved"),
	} {
		want, err := vfs.Identity(ctx, below)
		check.OK(t, err)
		if got, err := vfs.Identity(ctx, over); err != nil || got != want {
			t.Errorf("an identity is %q, %v; want %q", got, err, want)
		}
	}
	_, err = vfs.Identity(ctx, check.DirAt(t, root, "again"))
	check.Is(t, "Identity of a directory that was made again", err, vfs.Unsupported)

	made, err := root.Mkdir(ctx, "made")
	check.OK(t, err)
	_, err = vfs.Identity(ctx, made)
	check.Is(t, "Identity of a directory that was made", err, vfs.Unsupported)
	_, err = o.Apply(ctx, overlay.ApplyOptions{Journal: memoryUpper(t)})
	check.OK(t, err)
	want, err := vfs.Identity(ctx, check.DirAt(t, lower, "made"))
	check.OK(t, err)
	if got, err := vfs.Identity(ctx, made); err != nil || got != want {
		t.Errorf("once it is applied its identity is %q, %v; want %q", got, err, want)
	}
}

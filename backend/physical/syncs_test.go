package physical_test

import (
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// Changes that two Stores made in their own roots are synced in both.
func TestSyncOfStoresTogether(t *testing.T) {
	if descriptors() == 0 {
		t.Skip("nobody can tell how many descriptors are open")
	}
	ctx, sync := vfs.SyncTogether(t.Context())
	var roots []vfs.Dir
	for range 2 {
		s, err := physical.OpenAmbient(t.TempDir(), physical.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		roots = append(roots, s.Root())
	}
	before := descriptors()
	for _, root := range roots {
		if _, err := root.Mkdir(ctx, "d"); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptors() - before; n != len(roots) {
		t.Errorf("%d directories wait to be synced, want %d", n, len(roots))
	}
	if err := sync(); err != nil {
		t.Error(err)
	}
}

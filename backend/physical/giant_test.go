package physical_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Nobody has to hash a huge file of holes: above vfs.MaxVersioned it has no version, and
// below that a revoke ends the reading.
func TestSparseGiant(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 15<<40); err != nil {
		untried(t, "this file system has no holes: %v", err)
		return
	}
	s := open(t, dir, physical.Options{})
	gate := membrane.NewGate()
	defer gate.Release()
	d := membrane.Guarded(s.Root(), gate)
	defer d.Close()
	f, err := vfs.WalkFile(t.Context(), d, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	version := func() error {
		_, err := vfs.VersionOf(t.Context(), f)
		return err
	}
	truncate := func() error { return f.Truncate(t.Context(), 1, vfs.If{Is: vfs.Version{1}}) }
	for name, do := range map[string]func() error{
		"version": version, "truncate": truncate,
		"remove": func() error { return d.Remove(t.Context(), "f", vfs.If{Is: vfs.Version{1}}) },
	} {
		if err := do(); vfs.CodeOf(err) != vfs.TooLarge {
			t.Errorf("%s: %v, want tooLarge", name, err)
		}
	}
	if err := f.Truncate(t.Context(), vfs.MaxVersioned, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- version() }()
	go func() { done <- truncate() }()
	time.Sleep(50 * time.Millisecond)
	if err := gate.Revoke(); err != nil {
		t.Error(err)
	}
	for range 2 {
		select {
		case err := <-done:
			if vfs.CodeOf(err) != vfs.Revoked {
				t.Errorf("after the revoke: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the reading goes on after the revoke")
		}
	}
}

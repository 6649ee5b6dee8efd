package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"capd/state"
	"capd/vfs/vfstest/check"
)

// TestSweep: only the state of a host that was killed is removed, and nothing of others.
func TestSweep(t *testing.T) {
	in := t.TempDir()
	made := func(name string, mode os.FileMode, files ...string) string {
		dir := filepath.Join(in, name)
		check.OK(t, os.Mkdir(dir, 0o700))
		check.OK(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
		for _, name := range files {
			check.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		check.OK(t, os.Chmod(dir, mode))
		return dir
	}
	old := func(dir string) {
		before := time.Now().Add(-time.Hour)
		check.OK(t, os.Chtimes(dir, before, before))
	}
	dead := made(private+"dead", 0o700, marker, "lock")
	alive := made(private+"alive", 0o700, marker)
	unlock, err := state.Dir(alive).Lock()
	check.OK(t, err)
	defer unlock()
	kept := made(private+"kept", 0o700, marker, "lock")
	check.OK(t, os.MkdirAll(filepath.Join(state.Dir(kept).AllUnsynced(), "work"), 0o700))
	for _, dir := range []string{dead, alive, kept, made(private+"shown", 0o755, marker, "lock"), made("other", 0o700, marker, "lock"), made(private+"theirs", 0o700, "lock"), made(private+"unlocked", 0o700, marker)} {
		old(dir)
	}
	made(private+"new", 0o700, marker, "lock")
	outside := t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(outside, "file"), []byte("x"), 0o600))
	old(outside)
	check.OK(t, os.Symlink(outside, filepath.Join(in, private+"link")))

	sweep(in)
	all, err := os.ReadDir(in)
	check.OK(t, err)
	var left []string
	for _, e := range all {
		left = append(left, e.Name())
	}
	if want := []string{private + "alive", private + "kept", private + "link", private + "new", private + "shown", private + "theirs", private + "unlocked", "other"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}

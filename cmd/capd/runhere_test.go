package main

import (
	"os"
	"path/filepath"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs/vfstest/check"
)

// A place inside a mount is named as the host names it.
func TestAround(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check.OK(t, err)
	at := filepath.Join(dir, "docs", "api")
	check.OK(t, os.MkdirAll(at, 0o700))
	all := []operator.Mount{{Path: "tmp", URL: "memory:"}, {Path: "project", URL: server.PhysicalURL(dir)}}
	for where, want := range map[string]string{dir: "project", filepath.Join(dir, "docs"): "project/docs", at: "project/docs/api"} {
		t.Chdir(where)
		if got, ok := around(all); !ok || got != want {
			t.Errorf("%s is at %q, %v, want %q", where, got, ok, want)
		}
	}
	t.Chdir(filepath.Dir(dir))
	if got, ok := around(all); ok {
		t.Errorf("what is outside is at %q", got)
	}
}

package server_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func TestRootsAreChecked(t *testing.T) {
	for what, c := range map[string]struct {
		root server.Root
		says string
	}{
		"nowhere":               {server.Root{ID: "r", Kind: operator.Workspace, Path: "b"}, "nothing is mounted"},
		"in a mount":            {server.Root{ID: "r", Kind: operator.Workspace, Path: "a/b"}, "nothing is mounted"},
		"no overlay":            {server.Root{ID: "r", Kind: operator.Downloads, Path: "a"}, "mount an overlay"},
		"temp with a path":      {server.Root{ID: "r", Kind: operator.Temp, Path: "a"}, "leave its path out"},
		"made where a mount is": {server.Root{ID: "a", Kind: operator.Temp}, "another id"},
		"storage where one is":  {server.Root{ID: "a", Kind: operator.ExtensionStorage}, "another id"},
		"no kind":               {server.Root{ID: "r", Kind: "tmp", Path: "a"}, "has no kind"},
		"no id":                 {server.Root{ID: "a/b", Kind: operator.Secret, Path: "a"}, "no root's id"},
	} {
		s := &server.Server{State: t.TempDir(), Mounts: []server.Mount{{Path: "a", URL: "memory:"}}, Roots: []server.Root{c.root}}
		if err := s.Check(); vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(vfs.Message(err), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What the host keeps for extensions is there after a restart, and is the host's alone.
func TestRootIsMade(t *testing.T) {
	st := t.TempDir()
	for range 2 {
		s := &server.Server{State: st, Mounts: []server.Mount{{Path: "a", URL: "memory:"}}, Roots: []server.Root{{ID: "store", Kind: operator.ExtensionStorage}}, Logf: t.Logf}
		check.OK(t, s.Start(t.Context()))
		g, err := s.Grant(t.Context(), server.Guest{Name: "extension:lint", Root: "store"})
		check.OK(t, err)
		if g.Path != "store/extension+lint" || g.Root != "store" {
			t.Errorf("%+v", g)
		}
		_, err = s.Grant(t.Context(), server.Guest{Name: "agent", Root: "store"})
		check.Is(t, "a grant to an agent", err, vfs.Denied)
		check.OK(t, s.Close())
	}
	fi, err := os.Stat(filepath.Join(st, "roots", "store"))
	if err != nil || fi.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := os.Stat(filepath.Join(st, "roots", "store", "extension+lint")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(st, "roots", "store", "agent")); err == nil {
		t.Error("a directory was made for whom nothing is granted to")
	}
}

package server

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"capd/backend/memory"
	"capd/locator"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestReloadUndoes: a mount that fails only when it is mounted undoes what the reload had done before, and so does a guest that
// cannot be granted what it is to have.
func TestReloadUndoes(t *testing.T) {
	opened := 0
	stores := map[string]Opener{"once": func(context.Context, *URL) (*Store, error) {
		if opened++; opened > 1 {
			return nil, vfs.Errorf(vfs.Busy, "opened before")
		}
		m := memory.New(memory.Limits{})
		return &Store{Root: func() vfs.Dir { return m.Root() }}, nil
	}}
	one, two := t.TempDir(), t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(two, "f"), nil, 0o644))
	first := Policy{Rules: []Rule{{Effect: operator.RuleDeny, Patterns: []string{"one/x"}}}}
	s := &Server{State: t.TempDir(), Stores: stores, Policy: first, Logf: t.Logf,
		Mounts: []Mount{{Path: "one", URL: PhysicalURL(one)}, {Path: "two", URL: PhysicalURL(two)}}}
	check.OK(t, s.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, s.Close()) })
	before, err := s.Reconcile(t.Context(), []Guest{{Name: "agent", Path: "two"}})
	check.OK(t, err)
	hash := s.rules.Policy().Hash

	next := func(mounts ...Mount) *Server {
		return &Server{State: s.State, Policy: Policy{Rules: []Rule{{Effect: operator.RuleDeny, Patterns: []string{"two/x"}}}}, Mounts: mounts}
	}
	same := func(what string) {
		t.Helper()
		var paths []string
		for _, m := range s.Mounted() {
			paths = append(paths, m.Path)
		}
		if !slices.Equal(paths, []string{"one", "two"}) {
			t.Errorf("%s: %q are mounted", what, paths)
		}
		if now := s.rules.Policy().Hash; now != hash {
			t.Errorf("%s: other rules hold", what)
		}
		loc, err := locator.Parse(before[0].Locator)
		check.OK(t, err)
		n, _, err := s.authority.Restore(t.Context(), loc.Secret[:])
		check.OK(t, err)
		defer n.Close()
		_, err = vfs.Walk(t.Context(), n.(vfs.Dir), "f")
		check.OK(t, err)
	}
	_, err = s.Reload(t.Context(), next(Mount{Path: "one", URL: "memory:"}, Mount{Path: "three", URL: "once:x"}), nil)
	check.Is(t, "a store that cannot be mounted", err, vfs.Busy)
	same("after it")
	if opened != 2 {
		t.Errorf("it was opened %d times", opened)
	}
	_, err = s.Reload(t.Context(), next(Mount{Path: "one", URL: "memory:"}), []Guest{{Name: "agent", Path: "two"}})
	check.Is(t, "a guest of what is no more", err, vfs.NotFound)
	same("after that")
	_, err = s.Reload(t.Context(), s, nil)
	check.Is(t, "itself", err, vfs.Invalid)

	after, err := s.Reload(t.Context(), next(Mount{Path: "two", URL: PhysicalURL(two)}), []Guest{{Name: "agent", Path: "two"}})
	check.OK(t, err)
	if after[0].ID != before[0].ID || len(s.Mounted()) != 1 || s.rules.Policy().Hash == hash {
		t.Errorf("it has become %v with %v", after[0], s.Mounted())
	}
}

package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestCopyAsks: a copy of a directory of which a part is guarded is one request that lists all of it, and holds for those versions alone.
func TestCopyAsks(t *testing.T) {
	served, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "repo", ".git", "config"), "[core]\n")
	write(t, filepath.Join(other, "repo", "main.c"), "int x;\n")
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "q", URL: "physical:" + other}}})
	d := named(t, s, server.Guest{Name: "guest"})
	duplicate := func() error {
		_, err := d.Copy(t.Context(), "q/repo", d, "p/repo", vfs.If{}, vfs.If{})
		return err
	}
	absent := func(when string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(served, "repo")); err == nil {
			t.Errorf("%s: a part of it was made", when)
		}
	}
	check.Is(t, "with nobody there", duplicate(), vfs.AskDenied)
	stop := s.Approvals().Listen()
	defer stop()
	decided := func(meanwhile func()) (a operator.Ask, err error) {
		done := make(chan error, 1)
		go func() { done <- duplicate() }()
		check.Eventually(t, "it waits", func() bool {
			list, err := s.Approvals().List(t.Context(), false, operator.Ask{})
			check.OK(t, err)
			if len(list) == 1 {
				a = list[0]
			}
			return len(list) == 1
		})
		a, err = s.Approvals().Show(t.Context(), a.ID)
		check.OK(t, err)
		absent("before the decision")
		_, err = s.Approvals().Decide(a.ID, operator.Verdict{Answer: operator.Always}, "the test")
		check.Is(t, "always", err, vfs.Invalid)
		meanwhile()
		_, err = s.Approvals().Decide(a.ID, operator.Verdict{Answer: operator.Once}, "the test")
		check.OK(t, err)
		return a, <-done
	}
	_, err := decided(func() { write(t, filepath.Join(other, "repo", "main.c"), "int z;\n") })
	check.Is(t, "a file that was changed while it waited", err, vfs.Conflict)
	absent("after a conflict")
	write(t, filepath.Join(other, "repo", "main.c"), "int x;\n")
	a, err := decided(func() {})
	check.OK(t, err)
	if want := ".git/\n.git/config, 7 bytes\nmain.c, 7 bytes\n"; a.Operation != "copy" || a.Path != "p/repo" || a.Diff != want {
		t.Errorf("the operator was shown %+v, want the list %q", a, want)
	}
	if text, err := os.ReadFile(filepath.Join(served, "repo", ".git", "config")); err != nil || string(text) != "[core]\n" {
		t.Errorf("there is %q, %v", text, err)
	}
}

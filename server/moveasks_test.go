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

// TestMoveAsks: a move between two mounts of which one guards what moves is one request, which lists all that moves. It is recorded as one
// change, and survives the loss of its call.
func TestMoveAsks(t *testing.T) {
	served, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "repo", ".git", "config"), "[core]")
	write(t, filepath.Join(other, "repo", "main.c"), "int x;")
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "q", URL: "physical:" + other}}})
	d := named(t, s, server.Guest{Name: "guest"})
	move := func(to string) error {
		return d.Move(t.Context(), "q/repo", d, to, vfs.If{}, vfs.If{})
	}
	check.Is(t, "with nobody there", move("p/repo"), vfs.AskDenied)
	stop := s.Approvals().Listen()
	defer stop()
	waiting := func() (list []operator.Ask) {
		check.Eventually(t, "it waits", func() bool {
			var err error
			list, err = s.Approvals().List(t.Context(), false, operator.Ask{})
			check.OK(t, err)
			return len(list) == 1
		})
		return list
	}
	decided := func(v operator.Verdict, to string) (operator.Ask, error) {
		done := make(chan error, 1)
		go func() { done <- move(to) }()
		a, err := s.Approvals().Show(t.Context(), waiting()[0].ID)
		check.OK(t, err)
		if _, err := os.Stat(filepath.Join(served, to[2:])); err == nil {
			t.Error("it was moved before the decision")
		}
		_, err = s.Approvals().Decide(a.ID, v, "the test")
		check.OK(t, err)
		return a, <-done
	}
	_, err := decided(operator.Verdict{Answer: operator.Deny, Reason: "stay"}, "p/repo")
	check.Is(t, "a move that is denied", err, vfs.Denied)
	check.Is(t, "an equal one", move("p/repo"), vfs.Denied)
	a, err := decided(operator.Verdict{Answer: operator.Once}, "p/moved")
	check.OK(t, err)
	if a.Operation != "rename" || a.Path != "q/repo" || a.To != "p/moved" || a.Diff != ".git/\n.git/config, 6 bytes\nmain.c, 6 bytes\n" {
		t.Errorf("the operator was shown %+v", a)
	}
	if text, err := os.ReadFile(filepath.Join(served, "moved", ".git", "config")); err != nil || string(text) != "[core]" {
		t.Errorf("there is %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(other, "repo")); err == nil {
		t.Error("it is still there")
	}
	list, err := s.Approvals().List(t.Context(), true, operator.Ask{})
	check.OK(t, err)
	if last := list[len(list)-1]; !last.Used {
		t.Errorf("listed %+v", last)
	}
}

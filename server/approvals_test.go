package server_test

import (
	"errors"
	"path/filepath"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestApprovals: over a socket, a write that waits for an approval holds up neither the next write to the same File, nor others of the
// guest. A program decides as capd ask does, and a revoke ends the waiting.
func TestApprovals(t *testing.T) {
	served := t.TempDir()
	write(t, filepath.Join(served, ".git", "config"), "[core]")
	write(t, filepath.Join(served, "other"), "x")
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}})
	defer s.Approvals().Listen()()
	d := named(t, s, server.Guest{Name: "guest"})
	f := d.OpenFile("p/.git/config")
	texts := []string{"first", "second", "third"}
	ended := make([]chan error, len(texts))
	for i, text := range texts {
		ended[i] = make(chan error, 1)
		go func() {
			_, err := f.WriteText(t.Context(), text, vfs.If{})
			ended[i] <- err
		}()
	}
	waiting := func() []operator.Ask {
		list, err := s.Approvals().List(t.Context(), false, operator.Ask{})
		check.OK(t, err)
		return list
	}
	check.Eventually(t, "all of them wait", func() bool { return len(waiting()) == len(texts) })
	_, err := d.OpenFile("p/other").WriteText(t.Context(), "x", vfs.If{})
	check.OK(t, err)
	text, _, err := f.ReadText(t.Context())
	if check.OK(t, err); text != "[core]" {
		t.Errorf("before a decision it is %q", text)
	}

	chosen := waiting()[1]
	_, err = s.Approvals().Decide(chosen.ID, operator.Verdict{Answer: operator.Once}, "the test")
	check.OK(t, err)
	var made int
	check.Eventually(t, "the chosen one is made", func() bool {
		for i := range ended {
			select {
			case err := <-ended[i]:
				check.OK(t, err)
				made = i
				return true
			default:
			}
		}
		return false
	})
	if text, _, err = f.ReadText(t.Context()); err != nil || text != texts[made] {
		t.Errorf("it is %q, %v; want %q", text, err, texts[made])
	}

	// Another change of what was there before is approved too late.
	late := waiting()[0]
	_, err = s.Approvals().Decide(late.ID, operator.Verdict{Answer: operator.Once}, "the test")
	check.OK(t, err)
	var left []chan error
	check.Eventually(t, "it ends", func() bool {
		left = nil
		over := false
		for i := range ended {
			if i == made {
				continue
			}
			select {
			case err := <-ended[i]:
				check.Is(t, "approved too late", err, vfs.Conflict)
				over = true
			default:
				left = append(left, ended[i])
			}
		}
		return over
	})
	_, err = s.Revoke("guest")
	check.OK(t, err)
	for _, e := range left {
		if err := <-e; !errors.Is(err, vfs.Revoked) {
			t.Errorf("after the revoke: %v", err)
		}
	}
}

package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestAsksOfShares: over a socket, shares that ask and give up again and again leave what their giver and other shares asked for, and
// what they asked for goes when they are revoked.
func TestAsksOfShares(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, os.Mkdir(filepath.Join(dir, "asked"), 0o700))
	s := started(t, &server.Server{
		Mounts: []server.Mount{{Path: "p", URL: "physical:" + dir}},
		Policy: server.Policy{Rules: []server.Rule{{Effect: operator.RuleAsk, Operations: []string{"write"}, Patterns: []string{"p/asked/**"}}}},
	})
	given, err := s.Grant(t.Context(), server.Guest{Name: "giver"})
	check.OK(t, err)
	conn, err := client.Dial(t.Context(), given.Locator)
	check.OK(t, err)
	defer conn.Close()
	giver := conn.Dir(t.Context())
	defer s.Approvals().Listen()()
	waits := func(path string) bool {
		list, err := s.Approvals().List(t.Context(), false, operator.Ask{})
		check.OK(t, err)
		for _, a := range list {
			if a.Path == path {
				return true
			}
		}
		return false
	}
	// gaveUp asks for a change, and gives up when it waits. It reports whether it waited.
	gaveUp := func(d *client.Dir, path string) bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := d.Put(ctx, path, strings.NewReader(path), vfs.If{})
			done <- err
		}()
		check.Eventually(t, "a change waits or is refused", func() bool { return len(done) == 1 || waits(path) })
		if len(done) == 1 {
			check.Is(t, path, <-done, vfs.Limit)
			return false
		}
		return true
	}
	if !gaveUp(giver, "p/asked/giver") {
		t.Error("the giver's change does not wait")
	}
	var revokers []*client.Revoker
	var last *client.Dir
	for i := range 3 {
		at, r, err := conn.Share(t.Context(), giver)
		check.OK(t, err)
		revokers = append(revokers, r)
		last = holder(t, at)
		for j := range 20 {
			if !gaveUp(last, fmt.Sprintf("p/asked/%d-%d", i, j)) {
				t.Errorf("change %d of share %d does not wait", j, i)
			}
		}
	}
	if !waits("p/asked/giver") {
		t.Error("what the giver asked for is gone")
	}
	check.OK(t, revokers[0].Revoke(t.Context()))
	list, err := s.Approvals().List(t.Context(), false, operator.Ask{})
	var left []string
	for _, a := range list {
		left = append(left, a.Path)
	}
	slices.Sort(left)
	want := "p/asked/1-16 p/asked/1-17 p/asked/1-18 p/asked/1-19 p/asked/2-18 p/asked/2-19 p/asked/giver" // the first share had 8
	if check.OK(t, err); strings.Join(left, " ") != want {
		t.Errorf("after the revoke %q wait", left)
	}
	if !gaveUp(last, "p/asked/last") {
		t.Error("there is no room after the revoke")
	}
}

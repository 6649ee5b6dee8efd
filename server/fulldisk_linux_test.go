package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"capd/operator"
	"capd/server"
	"capd/tests/scratch"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestFullDiskTakesAway: with a full disk of the state a request is denied, an approval ends, and rules are set that only take away.
// A yes and rules that give are not possible. All that lasts.
func TestFullDiskTakesAway(t *testing.T) {
	if !scratch.OwnMounts(t) {
		return
	}
	at := t.TempDir()
	check.OK(t, unix.Mount("none", at, "tmpfs", 0, "size=24m,mode=700"))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	rules := []server.Rule{deny("m/fixed"), {Effect: operator.RuleAsk, Operations: []string{"write"}, Patterns: []string{"m/ask*"}}}
	s, con, d := ruledHost(t, at, rules...)
	ended := make(chan error, 3)
	defer s.Approvals().Listen()()
	for _, path := range []string{"ask1", "ask2", "ask3"} {
		go func() { ended <- check.Put(t.Context(), d, path, "x") }()
	}
	var asks []operator.Ask
	check.Eventually(t, "all wait", func() bool {
		asks, _ = s.Approvals().List(t.Context(), false, operator.Ask{})
		return len(asks) == 3
	})
	_, err := s.Approvals().Decide(asks[0].ID, operator.Verdict{Answer: operator.Always}, "the test")
	check.OK(t, err)
	check.OK(t, <-ended)
	standing, err := s.Approvals().Standing(t.Context())
	check.OK(t, err)

	scratch.FillDisk(t, filepath.Join(at, "full"))
	check.Eventually(t, "no change is possible", func() bool { return put(t, d, "more") == vfs.Busy })
	_, err = s.Approvals().Decide(asks[1].ID, operator.Verdict{Answer: operator.Once}, "the test")
	check.Is(t, "a yes", err, vfs.Busy)
	_, err = s.Approvals().Decide(asks[1].ID, operator.Verdict{Answer: operator.Deny}, "the test")
	check.OK(t, err)
	check.Is(t, "what was denied", <-ended, vfs.Denied)
	check.OK(t, s.Approvals().End(standing[0].ID))
	p, err := con.Policy(t.Context())
	check.OK(t, err)
	_, err = con.SetPolicy(t.Context(), "[{effect: allow, patterns: ['m/**']}]", p.Hash)
	check.Is(t, "rules that give", err, vfs.Busy)
	hash, err := con.SetPolicy(t.Context(), "[{effect: deny, patterns: ['m/other']}]", p.Hash)
	check.OK(t, err)
	_, err = con.SetPolicy(t.Context(), "", hash)
	check.Is(t, "fewer that deny", err, vfs.Busy)

	check.OK(t, s.Close())
	check.OK(t, os.Remove(filepath.Join(at, "full")))
	again := started(t, &server.Server{State: at, Mounts: []server.Mount{{Path: "m", URL: "memory:?max=1MiB"}}, Policy: server.Policy{Rules: rules}})
	standing, err = again.Approvals().Standing(t.Context())
	if check.OK(t, err); len(standing) != 0 {
		t.Errorf("%+v still holds", standing)
	}
	all, err := again.Approvals().List(t.Context(), true, operator.Ask{})
	check.OK(t, err)
	for _, a := range all {
		if a.ID == asks[1].ID && a.Answer != operator.Deny {
			t.Errorf("%+v", a)
		}
	}
}

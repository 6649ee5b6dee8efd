package server_test

import (
	"context"
	"strings"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestRulesWhileAsked: a change waits because a rule asks, and rules are exchanged before it is approved. A rule that denies wins over the
// approval, which is not used up. A change about which nobody would be asked any more waits for its answer, and gets what that says.
func TestRulesWhileAsked(t *testing.T) {
	ask := server.Rule{Effect: operator.RuleAsk, Operations: []string{"write"}, Patterns: []string{"m/**"}, Source: "asks"}
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:?max=1MiB"}}, Policy: server.Policy{Rules: []server.Rule{ask}}})
	d := named(t, s, server.Guest{Name: "agent"})
	stop := s.Approvals().Listen()
	defer stop()
	put := func() chan error {
		done := make(chan error, 1)
		go func() {
			_, err := d.Put(context.WithoutCancel(t.Context()), "m/f", strings.NewReader("x"), vfs.If{})
			done <- err
		}()
		return done
	}
	pending := func() (list []operator.Ask) {
		check.Eventually(t, "it waits", func() bool {
			var err error
			list, err = s.Approvals().List(t.Context(), false, operator.Ask{})
			check.OK(t, err)
			return len(list) == 1
		})
		return list
	}
	decide := func(v operator.Verdict) {
		_, err := s.Approvals().Decide(pending()[0].ID, v, "the test")
		check.OK(t, err)
	}
	rules := func(all ...server.Rule) { check.OK(t, s.SetPolicy(server.Policy{Rules: all})) }

	waits := put()
	pending()
	rules(deny("m/f"))
	decide(operator.Verdict{Answer: operator.Once})
	check.Is(t, "a rule denies what is approved", <-waits, vfs.Denied)
	_, err := vfs.Walk(t.Context(), d, "m/f")
	check.Is(t, "what was denied", err, vfs.NotFound)
	rules(ask)
	check.OK(t, <-put()) // the yes was not used

	rules(deny("m/f"))
	check.Is(t, "a later one", <-put(), vfs.Denied)
	rules(ask)
	waits = put()
	pending()
	rules()
	check.OK(t, <-put()) // nobody is asked
	decide(operator.Verdict{Answer: operator.Deny, Reason: "no"})
	check.Is(t, "what waits is decided by its answer", <-waits, vfs.Denied)
}

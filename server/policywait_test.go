package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"capd/backend/memory"
	"capd/client/console"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/vfstest/check"
)

// TestPolicyWaits: when rules were set, no change shows any more that the old ones decided. Reads do not wait for that.
func TestPolicyWaits(t *testing.T) {
	plan := new(faultfs.Plan)
	own := func(context.Context, *server.URL) (*server.Store, error) {
		return &server.Store{Root: func() vfs.Dir { return faultfs.New(memory.New(memory.Limits{}).Root(), plan) }}, nil
	}
	s := started(t, &server.Server{Stores: map[string]server.Opener{"own": own}, Mounts: []server.Mount{{Path: "m", URL: "own:"}}})
	d := named(t, s, server.Guest{Name: "agent"})
	denied := server.Policy{Rules: []server.Rule{deny("m/private")}}
	text := `[{"effect": "deny", "operations": ["write"], "patterns": ["m/private"]}]`
	con, err := console.Dial(t.Context(), state.Dir(s.State).Control())
	check.OK(t, err)
	defer con.Close()
	for _, set := range []func() error{
		func() error { return s.SetPolicy(denied) },
		func() error {
			now, err := con.Policy(t.Context())
			check.OK(t, err)
			_, err = con.SetPolicy(t.Context(), text, now.Hash)
			return err
		},
	} {
		check.OK(t, s.SetPolicy(server.Policy{}))
		pause, put, resumed, done := plan.Pause(faultfs.Replace, faultfs.Commit, 1), make(chan error, 1), atomic.Bool{}, make(chan error, 1)
		go func() {
			_, err := d.Put(t.Context(), "m/private", strings.NewReader("x"), vfs.If{})
			put <- err
		}()
		<-pause.Reached()
		go func() {
			err := set()
			if !resumed.Load() {
				t.Errorf("it returned while a change was under way")
			}
			done <- err
		}()
		check.Eventually(t, "the rules hold", func() bool {
			_, err := d.Put(t.Context(), "m/private", strings.NewReader("y"), vfs.If{})
			return vfs.CodeOf(err) == vfs.Denied
		})
		_, err := vfs.Walk(t.Context(), d, "m")
		check.OK(t, err)
		resumed.Store(true)
		pause.Resume()
		check.OK(t, <-done)
		check.OK(t, <-put)
	}
}

package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"capd/client"
	"capd/client/console"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// lines collects what a host logs.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, vfs.Printable(strings.TrimSpace(fmt.Sprintf(format, args...))))
}

// TestGoneWhileCallsWait: a guest that goes away while its calls wait for an approval, a hook or a decision about a grant leaves nothing in the log.
func TestGoneWhileCallsWait(t *testing.T) {
	served, at := t.TempDir(), t.TempDir()
	write(t, filepath.Join(served, "asked", "f"), "x")
	write(t, filepath.Join(served, "read", "f"), "x")
	var log lines
	s := &server.Server{
		State: at, Logf: log.logf,
		Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}},
		Roots:  []operator.Root{{ID: "p", Kind: operator.Workspace, Path: "p"}},
		Policy: server.Policy{Rules: []server.Rule{
			{Effect: operator.RuleAsk, Operations: []string{"write", "delete"}, Patterns: []string{"p/asked/**"}},
			{Effect: operator.RuleAsk, Operations: []string{"read"}, Patterns: []string{"p/read/**"}},
		}},
	}
	check.OK(t, s.Start(t.Context()))
	l := &lint{}
	con, err := console.Dial(t.Context(), state.Dir(at).Control())
	check.OK(t, err)
	defer con.Close()
	check.OK(t, con.AddHook(t.Context(), operator.Hook{Name: "lint", Before: true, Patterns: []string{"p/*hang"}}, l))
	defer s.Approvals().Listen()()
	given, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
	check.OK(t, err)
	invited, err := s.Invite(t.Context(), "wisher", server.InviteTerms{})
	check.OK(t, err)
	ctx := t.Context()
	waits := func(path string) bool {
		list, err := s.Approvals().List(ctx, false, operator.Ask{})
		check.OK(t, err)
		return slices.ContainsFunc(list, func(a operator.Ask) bool { return a.Path == path }) || l.asked(path)
	}
	for name, c := range map[string]struct {
		at, path string
		do       func(*client.Conn) error
	}{
		"a change": {given.Locator, "p/asked/new", func(c *client.Conn) error {
			_, err := c.Dir(ctx).Put(ctx, "p/asked/new", strings.NewReader("x"), vfs.If{})
			return err
		}},
		"a removal": {given.Locator, "p/asked/f", func(c *client.Conn) error { return c.Dir(ctx).RemovePath(ctx, "p/asked/f", vfs.If{}) }},
		"a read": {given.Locator, "p/read/f", func(c *client.Conn) error {
			_, _, err := c.Dir(ctx).OpenFile("p/read/f").ReadText(ctx)
			return err
		}},
		"a hook": {given.Locator, "p/hang", func(c *client.Conn) error {
			_, err := c.Dir(ctx).CreateFile(ctx, "p/hang")
			return err
		}},
		"a wish": {invited.Locator, "p", func(c *client.Conn) error {
			_, err := c.Petitioner(ctx).RequestDir(ctx, "p", client.AllRights, "please").Stat(ctx)
			return err
		}},
	} {
		conn, err := client.Dial(ctx, c.at)
		check.OK(t, err)
		over := make(chan error, 1)
		go func() { over <- c.do(conn) }()
		check.Eventually(t, name+" waits", func() bool { return len(over) > 0 || waits(c.path) })
		check.OK(t, conn.Close())
		check.Is(t, name, <-over, vfs.Stale)
	}
	check.OK(t, s.Close()) // every call has ended
	if len(log.all) > 0 {
		t.Errorf("the host logs\n%s", strings.Join(log.all, "\n"))
	}
}

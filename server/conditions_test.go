package server_test

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// conditional are the changes with a condition on the version of p/keys/pin.
var conditional = map[string]func(ctx context.Context, d *client.Dir, c vfs.If) error{
	"write": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		_, err := d.OpenFile("p/keys/pin").WriteAt(ctx, nil, 0, c)
		return err
	},
	"append": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		_, err := d.OpenFile("p/keys/pin").Append(ctx, []byte("x"), c)
		return err
	},
	"truncate": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		return d.OpenFile("p/keys/pin").Truncate(ctx, 3, c)
	},
	"replace": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		_, err := d.OpenFile("p/keys/pin").WriteText(ctx, "x", c)
		return err
	},
	"put": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		_, err := d.Put(ctx, "p/keys/pin", strings.NewReader("x"), c)
		return err
	},
	"put-long": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		_, err := d.Put(ctx, "p/keys/pin", strings.NewReader(strings.Repeat("x", 1<<20)), c)
		return err
	},
	"remove": func(ctx context.Context, d *client.Dir, c vfs.If) error { return d.RemovePath(ctx, "p/keys/pin", c) },
	"move-over": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		return d.Move(ctx, "p/other", d, "p/keys/pin", vfs.If{}, c)
	},
	"move": func(ctx context.Context, d *client.Dir, c vfs.If) error {
		return d.Move(ctx, "p/keys/pin", d, "p/keys/moved", c, vfs.If{})
	},
}

// pinned is a host on a directory with keys/pin, where rule holds for p/keys.
func pinned(t *testing.T, rule server.Rule) (*server.Server, string) {
	t.Helper()
	dir := t.TempDir()
	check.OK(t, os.Mkdir(filepath.Join(dir, "keys"), 0o700))
	rule.Patterns = []string{"p/keys/**"}
	return started(t, &server.Server{
		Mounts: []server.Mount{{Path: "p", URL: "physical:" + dir}},
		Policy: server.Policy{Rules: []server.Rule{rule}},
	}), dir
}

// TestConditionsUnderAsk: where reading waits for an approval, a condition on a version does too. A wrong guess and a right one are answered
// alike before that, and after it the condition holds or does not.
func TestConditionsUnderAsk(t *testing.T) {
	s, dir := pinned(t, server.Rule{Effect: operator.RuleAsk, Operations: []string{"read"}})
	right, wrong := vfs.If{Is: sha256.Sum256([]byte("pin=0427"))}, vfs.If{Is: sha256.Sum256([]byte("pin=0426"))}
	fill := func() {
		write(t, filepath.Join(dir, "keys", "pin"), "pin=0427")
		write(t, filepath.Join(dir, "other"), "x")
	}
	fill()
	guests := map[string]*client.Dir{}
	for name, do := range conditional {
		guests[name] = named(t, s, server.Guest{Name: name})
		check.Is(t, name+": a wrong guess, and nobody listens", do(t.Context(), guests[name], wrong), vfs.AskDenied)
		check.Is(t, name+": a right guess, and nobody listens", do(t.Context(), guests[name], right), vfs.AskDenied)
	}
	defer s.Approvals().Listen()()
	for name, do := range conditional {
		t.Run(name, func(t *testing.T) {
			fill()
			d := guests[name]
			guess := make(chan error, 1)
			go func() { guess <- do(t.Context(), d, wrong) }()
			a := pending(t, s)
			if a.Operation != "read" || a.Path != "p/keys/pin" {
				t.Errorf("asked about %+v", a)
			}
			_, err := s.Approvals().Decide(a.ID, operator.Verdict{Answer: operator.Once}, "the test")
			check.OK(t, err)
			check.Is(t, "a wrong guess after the approval", <-guess, vfs.Conflict)
			if text, _, err := d.OpenFile("p/keys/pin").ReadText(t.Context()); text != "pin=0427" {
				t.Errorf("read after the approval: %q, %v", text, err)
			}
			go func() { guess <- do(t.Context(), d, right) }()
			if name == "move" { // which reads what it moves, and is asked about
				_, err := s.Approvals().Decide(pending(t, s).ID, operator.Verdict{Answer: operator.Once}, "the test")
				check.OK(t, err)
			}
			check.OK(t, <-guess)
		})
	}
}

// pending waits for the one request that waits.
func pending(t *testing.T, s *server.Server) operator.Ask {
	t.Helper()
	var list []operator.Ask
	check.Eventually(t, "a request waits", func() bool {
		list, _ = s.Approvals().List(t.Context(), false, operator.Ask{})
		return len(list) == 1
	})
	return list[0]
}

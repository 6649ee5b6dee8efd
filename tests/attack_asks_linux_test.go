package tests

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"capd/client"
	"capd/operator"
	"capd/vfs"
)

// listens makes changes wait for approvals until it is stopped, and returns the first that waits below a path.
func (a *authorityAttack) listens() (first func(path string) string, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	_, next, _, err := a.con.Events(ctx, 1<<62, 0)
	ok(a.t, err)
	go func() {
		defer close(over)
		for err := error(nil); err == nil; {
			_, next, _, err = a.con.Events(ctx, next, time.Minute)
		}
	}()
	first = func(path string) (id string) {
		a.t.Helper()
		if !waitFor(patience, func() bool {
			all, err := a.con.Asks(ctx, false)
			ok(a.t, err)
			for _, q := range all {
				if strings.HasPrefix(q.Path, path) {
					id = q.ID
				}
			}
			return id != ""
		}) {
			a.t.Fatalf("nothing waits at %q", path)
		}
		return id
	}
	return first, func() { cancel(); <-over }
}

// asks puts a file until somebody listens, and waits for the decision.
func asks(ctx context.Context, d *client.Dir, path, content string) error {
	for {
		if _, err := d.Put(ctx, path, strings.NewReader(content), vfs.If{}); vfs.CodeOf(err) != vfs.AskDenied {
			return err
		}
	}
}

// Of many who decide at once one does, and of many equal changes that one yes is for one is made.
func attackDecisions(t *testing.T, a *authorityAttack) {
	ctx := t.Context()
	ok(t, os.MkdirAll(filepath.Join(a.served, ".git"), 0o755))
	loc := a.given("decided", operator.Terms{})
	first, stop := a.listens()
	defer stop()
	for round := range times(3, 30) {
		path := ".git/decided" + string(rune('a'+round))
		made := make(chan error, 6)
		for range cap(made) {
			d := dial(t, loc).Dir(ctx)
			go func() { made <- asks(ctx, d, path, "asked") }()
		}
		id := first("project/" + path)
		decided := make(chan operator.Answer, 16)
		var all sync.WaitGroup
		for i := range cap(decided) {
			con, answer := a.console(), []operator.Answer{operator.Once, operator.Deny}[i%2]
			all.Go(func() {
				if _, err := con.Decide(ctx, id, operator.Verdict{Answer: answer}); err == nil {
					decided <- answer
				} else {
					a.refused("a second decision", err, "conflict notFound")
				}
			})
		}
		all.Wait()
		if len(decided) != 1 {
			t.Fatalf("%d decisions count", len(decided))
		}
		done, answer := 0, <-decided
		for range cap(made) {
			if err := a.deniesLater(made, id, path); err == nil {
				done++
			} else {
				a.refused("an equal change", err, map[operator.Answer]string{operator.Once: "conflict denied", operator.Deny: "denied"}[answer])
			}
		}
		if want := map[operator.Answer]int{operator.Once: 1}[answer]; done != want {
			attacks.escape(t)
			t.Errorf("%s: %d changes were made", answer, done)
		}
	}
}

// deniesLater returns what the next of made answers. Until then it denies each request but id: a change that came after the decision
// is not one of those that waited for it, so it asks anew.
func (a *authorityAttack) deniesLater(made <-chan error, id, path string) error {
	for {
		select {
		case err := <-made:
			return err
		case <-time.After(50 * time.Millisecond):
		}
		all, err := a.con.Asks(a.t.Context(), false)
		ok(a.t, err)
		for _, q := range all {
			if q.ID != id && q.Path == "project/"+path {
				// It may have been decided or dropped since.
				_, _ = a.con.Decide(a.t.Context(), q.ID, operator.Verdict{Answer: operator.Deny})
			}
		}
	}
}

// What a guest chose never passes for what the host says, on a terminal or to a program that reads lines.
func attackWords(t *testing.T, a *authorityAttack) {
	ctx := t.Context()
	const mark = "EVIL"
	ok(t, os.MkdirAll(filepath.Join(a.served, ".git"), 0o755))
	d := dial(t, a.given("words", operator.Terms{})).Dir(ctx)
	first, stop := a.listens()
	defer stop()
	for _, said := range []string{
		"\x1b[2J\x1b[H" + mark, "\n" + mark + " operator (g1) asks\nanswered: once, by the operator", "\r" + mark, "\u202e" + mark, "\u2028" + mark,
		"a\x00b" + mark, "\x9b31m" + mark, "\b\b\b\b" + mark, "> " + mark + "\n> ", "\tonce\t" + mark,
	} {
		name := strings.ReplaceAll(strings.ToValidUTF8(said, ""), "\x00", "") // of a file that is there: a guest cannot make it
		ok(t, os.WriteFile(filepath.Join(a.served, ".git", name), nil, 0o644))
		over := make(chan error, 1)
		go func() { over <- asks(ctx, d, ".git/"+name, said+"\n"+said) }()
		id := first("project/.git/" + name)
		for _, args := range [][]string{{"asks"}, {"ask", id}, {"asks", "--all"}, {"audit"}, {"status", "--guests"}, {"grants"}, {"ask", id, "deny"}, {"audit"}, {"asks", "--all"}} {
			out, err := execCapd(t, append(args, "--state", a.state)...).CombinedOutput()
			ok(t, err)
			attacks.tried(t, false)
			if args[0] == "ask" && len(args) == 2 && !strings.Contains(string(out), mark) {
				t.Errorf("vacuous: %q is not shown: %s", said, out)
			}
			if line := deceives(string(out), mark); line != "" {
				attacks.escape(t)
				t.Errorf("capd %q prints %q", args, line)
			}
		}
		a.refused("what was said", <-over, "denied")
	}
}

// deceives returns a line with a character that a terminal acts on, or one that begins with mark. A tab in a line of a diff, which is
// marked as the guest's, is allowed.
func deceives(text, mark string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		odd := func(r rune) bool {
			return unicode.IsControl(r) && (r != '\t' || !strings.HasPrefix(line, "> ")) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == unicode.ReplacementChar
		}
		if strings.ContainsFunc(line, odd) || strings.HasPrefix(strings.TrimSpace(line), mark) {
			return line
		}
	}
	return ""
}

package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"capd/client/console"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// lint is a hook that a program serves.
type lint struct {
	mu    sync.Mutex
	about []string // it was asked
	told  []string
}

func (l *lint) asked(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.about, path)
}

func (l *lint) Before(ctx context.Context, c operator.HookedChange) (operator.HookAnswer, string, error) {
	l.mu.Lock()
	l.about = append(l.about, c.Path)
	l.mu.Unlock()
	switch {
	case strings.HasSuffix(c.Path, "deny"):
		return operator.HookDeny, "no", nil
	case strings.HasSuffix(c.Path, "fail"):
		return "", "", errors.New("it went wrong")
	case strings.HasSuffix(c.Path, "ask"), strings.HasSuffix(c.To, "ask"):
		return operator.HookAsk, "a matter of taste", nil
	case strings.HasSuffix(c.Path, "hang"):
		<-ctx.Done()
	}
	return operator.HookOK, "", nil
}

func (l *lint) After(_ context.Context, c operator.HookedChange, o operator.HookOutcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, c.Operation+" "+c.Path+" "+o.Result)
	return nil
}

func (l *lint) heard() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.told, ", ")
}

// TestHookOverTheConsole: a capability is asked and told over its own connection. When that is gone, what it would be asked
// about is denied until it is there again. A revoke ends the wait for it.
func TestHookOverTheConsole(t *testing.T) {
	dir := t.TempDir()
	s := started(t, &server.Server{State: dir, Mounts: []server.Mount{{Path: "p", URL: "physical:" + t.TempDir()}, {Path: "q", URL: "memory:?max=1MiB"}}})
	dial := func() *console.Console {
		c, err := console.Dial(t.Context(), state.Dir(dir).Control())
		check.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	d := named(t, s, server.Guest{Name: "guest"})
	put := func(path string) error {
		_, err := d.Put(t.Context(), path, strings.NewReader("x"), vfs.If{})
		return err
	}
	refused := func(path, want string) {
		t.Helper()
		if err := put(path); vfs.CodeOf(err) != vfs.Denied || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v rather than %s", path, err, want)
		}
	}
	l, first, second := &lint{}, dial(), dial()
	spec := operator.Hook{Name: "lint", Before: true, After: true}
	check.OK(t, first.AddHook(t.Context(), spec, l))
	check.OK(t, put("p/one"))
	refused("p/deny", "the hook lint said no: no")
	refused("p/fail", "the hook lint failed")

	// It has an operator asked: also about a file in memory, which no rule and no pattern asks about.
	check.Is(t, "with nobody listening", put("q/ask"), vfs.AskDenied)
	check.Is(t, "a move between two mounts", d.Move(t.Context(), "p/one", d, "q/other-ask", vfs.If{}, vfs.If{}), vfs.AskDenied)
	stop := s.Approvals().Listen()
	ended := make(chan error, 1)
	go func() { ended <- put("q/ask") }()
	var list []operator.Ask
	check.Eventually(t, "it waits", func() bool {
		list, _ = s.Approvals().List(t.Context(), false, operator.Ask{})
		return len(list) == 1
	})
	if a := list[0]; strings.Join(a.Why, ";") != "hook lint: a matter of taste" || a.Operation != "replace" {
		t.Errorf("%+v", a)
	}
	_, err := s.Approvals().Decide(list[0].ID, operator.Verdict{Answer: operator.Once}, "the test")
	check.OK(t, err)
	check.OK(t, <-ended)
	stop()

	// A revoke ends the wait.
	other := named(t, s, server.Guest{Name: "other"})
	go func() {
		_, err := other.Put(t.Context(), "p/hang", strings.NewReader("x"), vfs.If{})
		ended <- err
	}()
	check.Eventually(t, "it is asked", func() bool { return l.asked("p/hang") })
	_, err = second.Revoke(t.Context(), "other")
	check.OK(t, err)
	check.Is(t, "the change", <-ended, vfs.Revoked)

	check.OK(t, first.Close())
	check.Eventually(t, "it is gone", func() bool {
		all, err := second.Hooks(t.Context())
		check.OK(t, err)
		return len(all) == 1 && all[0].Gone
	})
	refused("p/two", "the hook lint is not connected")
	check.OK(t, second.AddHook(t.Context(), spec, l))
	check.OK(t, put("p/two"))
	check.Eventually(t, "it is told of all", func() bool {
		return l.heard() == "replace p/one done, replace q/ask done, replace p/two done"
	})
	check.OK(t, second.RemoveHook(t.Context(), "lint"))
	check.OK(t, put("p/deny"))
}

// TestHookOfOddNames: no hook is asked about a name that cannot be made. It is asked about a file that the host has under such a name.
func TestHookOfOddNames(t *testing.T) {
	served, at := t.TempDir(), t.TempDir()
	s := started(t, &server.Server{State: at, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "q", URL: "memory:?max=4MiB"}}})
	con, err := console.Dial(t.Context(), state.Dir(at).Control())
	check.OK(t, err)
	defer con.Close()
	l := &lint{}
	check.OK(t, con.AddHook(t.Context(), operator.Hook{Name: "lint", Before: true}, l))
	ctx, d := t.Context(), named(t, s, server.Guest{Name: "guest"})
	write(t, filepath.Join(served, "f"), "x")
	for _, name := range []string{"a\u202eb", "\u2066", "a\U000e0041", "a\nb", "\xff", `a\b`} {
		for _, mount := range []string{"p/", "q/"} {
			for what, do := range map[string]func(path string) error{
				"put": func(path string) error { _, err := d.Put(ctx, path, strings.NewReader("x"), vfs.If{}); return err },
				"put long": func(path string) error {
					_, err := d.Put(ctx, path, strings.NewReader(strings.Repeat("x", 1<<20)), vfs.If{})
					return err
				},
				"put if": func(path string) error {
					_, err := d.Put(ctx, path, strings.NewReader("x"), vfs.If{Absent: true})
					return err
				},
				"create": func(path string) error { _, err := d.CreateFile(ctx, path); return err },
				"mkdir":  func(path string) error { _, err := d.CreateDir(ctx, path); return err },
				"move":   func(path string) error { return d.Move(ctx, "p/f", d, path, vfs.If{}, vfs.If{}) },
			} {
				check.Is(t, what+" "+vfs.Printable(mount+name), do(mount+name), vfs.Invalid)
			}
			if l.asked(mount + name) {
				t.Errorf("the hook was asked about %q", mount+name)
			}
		}
		write(t, filepath.Join(served, name), "x")
		_, err := d.Put(ctx, "p/"+name, strings.NewReader("y"), vfs.If{})
		check.OK(t, err)
		if !l.asked("p/" + name) {
			t.Errorf("the hook was not asked about %q, which is there", name)
		}
	}
}

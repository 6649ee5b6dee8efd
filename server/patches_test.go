package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/client/console"
	"capd/meter"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// adding returns a patch that makes files with that text.
func adding(text string, paths ...string) []byte {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	for _, path := range paths {
		fmt.Fprintf(&b, "*** Add File: %s\n+%s\n", path, text)
	}
	b.WriteString("*** End Patch\n")
	return []byte(b.String())
}

// holdsNothing checks that nothing is in dir, and nothing in the directory in which its store stages.
func holdsNothing(t *testing.T, what, dir string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	check.OK(t, err)
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".capd-staging-") {
			t.Errorf("%s: there is %s", what, e.Name())
			continue
		}
		staged, err := os.ReadDir(filepath.Join(dir, e.Name()))
		check.OK(t, err)
		for _, e := range staged {
			if e.Name() != "lock" && e.Name() != ".gitignore" { // which stay while the store is open
				t.Errorf("%s: the store still stages %s", what, e.Name())
			}
		}
	}
}

// TestPatchHooks: hooks are asked about each path of a patch, before any is changed, and told of the whole.
func TestPatchHooks(t *testing.T) {
	served := t.TempDir()
	dir := t.TempDir()
	s := started(t, &server.Server{State: dir, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}})
	c, err := console.Dial(t.Context(), state.Dir(dir).Control())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	l := &lint{}
	check.OK(t, c.AddHook(t.Context(), operator.Hook{Name: "lint", Before: true, After: true}, l))
	d := named(t, s, server.Guest{Name: "guest"})
	patch := func(d *client.Dir, paths ...string) error {
		_, err := d.Patch(t.Context(), adding("x", paths...), client.PatchOptions{})
		return err
	}
	err = patch(d, "p/a", "p/deny", "p/z")
	if vfs.CodeOf(err) != vfs.Denied || !strings.Contains(err.Error(), "p/deny: the hook lint said no: no") {
		t.Errorf("%v, want denied for p/deny", err)
	}
	check.Is(t, "a hook that asks", patch(d, "p/a", "p/ask"), vfs.AskDenied)
	holdsNothing(t, "refused by a hook", served)

	// A revoke ends the wait for one.
	other := named(t, s, server.Guest{Name: "other"})
	ended := make(chan error, 1)
	go func() { ended <- patch(other, "p/a", "p/hang") }()
	check.Eventually(t, "it is asked", func() bool { return l.asked("p/hang") })
	_, err = s.Revoke("other")
	check.OK(t, err)
	check.Is(t, "revoked while a hook is asked", <-ended, vfs.Revoked)
	holdsNothing(t, "revoked while a hook is asked", served)

	check.OK(t, patch(d, "p/new/a", "p/b"))
	for _, path := range []string{"p/new", "p/new/a", "p/b"} {
		if !l.asked(path) {
			t.Errorf("the hook was not asked about %s", path)
		}
	}
	check.Eventually(t, "it is told", func() bool { return strings.HasSuffix(l.heard(), "change  done") })
	if heard := l.heard(); strings.Count(heard, " done") != 1 {
		t.Errorf("it was told %q", heard)
	}
}

// TestPatchOverQuota: if one file of a patch is too much for an allowance, none is changed, and nothing is charged.
func TestPatchOverQuota(t *testing.T) {
	served := t.TempDir()
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "q", URL: "memory:?max=100"}}})
	text := strings.Repeat("x", 39)
	for what, paths := range map[string][]string{"of the grant": {"p/a/1", "p/a/2", "p/a/3"}, "of a mount": {"p/b", "q/1", "q/2", "q/3"}} {
		d := named(t, s, server.Guest{Name: "guest", Limits: server.Limits{meter.StoredBytes: 130}})
		put := func() error {
			_, err := d.Put(t.Context(), "p/mine", strings.NewReader(text+"\n"), vfs.If{})
			return err
		}
		check.OK(t, put())
		_, err := d.Patch(t.Context(), adding(text, paths...), client.PatchOptions{})
		if c := vfs.CodeOf(err); c != vfs.Quota {
			t.Errorf("%s: %v, want quota", what, err)
		}
		_, err = d.Patch(t.Context(), adding(text, "p/1", "p/2"), client.PatchOptions{})
		check.Is(t, what+", two files, for which there is room", err, "")
		_, err = d.Patch(t.Context(), adding(text, "p/1", "p/2"), client.PatchOptions{Reverse: true})
		check.Is(t, what+", back again", err, "")
		check.OK(t, os.Remove(filepath.Join(served, "mine")))
		holdsNothing(t, what, served)
		if _, _, err := d.OpenFile("q/1").ReadText(t.Context()); vfs.CodeOf(err) != vfs.NotFound {
			t.Errorf("%s: in memory there is something: %v", what, err)
		}
		_, err = s.Revoke("guest")
		check.OK(t, err)
	}
}

// TestPatchRevoked revokes a guest while it patches many files again and again. A patch is made or not made, and none after the
// revoke has answered.
func TestPatchRevoked(t *testing.T) {
	const files = 30
	made, cut := 0, 0
	for round := range 6 {
		served := t.TempDir()
		s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}})
		d := named(t, s, server.Guest{Name: "guest"})
		patch := func(n int) error {
			var b strings.Builder
			b.WriteString("*** Begin Patch\n")
			for i := range files {
				if n == 0 {
					fmt.Fprintf(&b, "*** Add File: p/%d\n+0\n", i)
				} else {
					fmt.Fprintf(&b, "*** Update File: p/%d\n-%d\n+%d\n", i, n-1, n)
				}
			}
			_, err := d.Patch(t.Context(), []byte(b.String()+"*** End Patch\n"), client.PatchOptions{})
			return err
		}
		check.OK(t, patch(0))
		last := make(chan int, 1)
		go func() {
			for n := 1; ; n++ {
				if err := patch(n); err != nil {
					check.Is(t, "the patch", err, vfs.Revoked)
					last <- n
					return
				}
			}
		}()
		time.Sleep(time.Duration(7*round) * time.Millisecond)
		_, err := s.Revoke("guest")
		check.OK(t, err)
		content := func(i int) string {
			text, err := os.ReadFile(filepath.Join(served, fmt.Sprint(i)))
			check.OK(t, err)
			return string(text)
		}
		first := content(0)
		refused := <-last
		if first == fmt.Sprintln(refused) {
			made++ // it was under way, and its answer was lost
		} else if cut++; first != fmt.Sprintln(refused-1) {
			t.Errorf("%d patches were made, and the file has %q", refused, first)
		}
		for i := range files {
			if got := content(i); got != first {
				t.Errorf("file %d has %q, the first %q", i, got, first)
			}
		}
	}
	t.Logf("revoked in the middle %d times: 0 in part (%d were made)", made+cut, made)
}

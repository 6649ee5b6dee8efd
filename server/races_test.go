package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"capd/client"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// rounds is how often a race is run.
func rounds() int {
	if os.Getenv("CAPD_CI") != "" {
		return 50
	}
	return 5
}

// over reports whether err says that the Server has ended.
func over(err error) bool { return errors.Is(err, vfs.Stale) || errors.Is(err, vfs.Revoked) }

// users use s in every way until it is closed, each in a goroutine of its own. ready is closed once all have begun.
func users(t *testing.T, s *server.Server, d *client.Dir) (work *sync.WaitGroup, ready chan struct{}) {
	ctx := context.Background()
	work, ready = &sync.WaitGroup{}, make(chan struct{})
	var began sync.WaitGroup
	use := func(name string, expected []vfs.Code, do func(i int) error) {
		began.Add(1)
		work.Go(func() {
			for i := 0; ; i++ {
				err := do(i)
				if i == 2 {
					began.Done()
				}
				if i >= 2 && over(s.Unmount(ctx, "no mount")) {
					return
				}
				if err != nil && !over(err) {
					if got, part := expected, vfs.CodeOf(err); !slices.Contains(got, part) {
						t.Fatalf("%s: %v: %q does not contain %q", name, err, got, part)
					}
				}
			}
		})
	}
	name := func(i int) string { return fmt.Sprintf("guest-%d", i%7) }
	use("Grant", nil, func(i int) error {
		g, err := s.Grant(ctx, server.Guest{Name: name(i), Path: "p"})
		if err == nil {
			err = stat(ctx, g.Locator)
		}
		return err
	})
	use("Revoke", []vfs.Code{vfs.NotFound}, func(i int) error { _, err := s.Revoke(name(i)); return err })
	use("SetWritable", []vfs.Code{vfs.NotFound}, func(i int) error { _, err := s.SetWritable(name(i), i%2 == 0); return err })
	use("Mount", []vfs.Code{vfs.Exists, vfs.Busy}, func(i int) error {
		return s.Mount(ctx, server.Mount{Path: fmt.Sprintf("late-%d", i%3), URL: s.Mounts[1].URL})
	})
	use("Unmount", []vfs.Code{vfs.NotFound, vfs.Busy}, func(i int) error { return s.Unmount(ctx, fmt.Sprintf("late-%d", i%3)) })
	use("Mounted", nil, func(int) error { s.Mounted(); s.Grants(); s.Notes(); return nil })
	use("put", []vfs.Code{vfs.NotFound}, func(i int) error {
		_, err := d.Put(ctx, fmt.Sprintf("late-%d/f%d", i%3, i%5), strings.NewReader("text"), vfs.If{})
		return err
	})
	use("Diff", []vfs.Code{vfs.NotFound}, func(i int) error {
		_, _, err := s.Diff(ctx, fmt.Sprintf("late-%d", i%3), server.DiffOptions{})
		return err
	})
	use("Apply", []vfs.Code{vfs.NotFound, vfs.Conflict, vfs.Busy, vfs.Invalid}, func(i int) error {
		_, err := s.Apply(ctx, fmt.Sprintf("late-%d", i%3), server.ApplyOptions{})
		return err
	})
	use("Revert", []vfs.Code{vfs.NotFound, vfs.Busy}, func(i int) error { _, err := s.Revert(ctx, fmt.Sprintf("late-%d", i%3)); return err })
	go func() { began.Wait(); close(ready) }()
	return work, ready
}

// stat connects as a guest, and looks once.
func stat(ctx context.Context, locator string) error {
	conn, err := client.Dial(ctx, locator)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Dir(ctx).Stat(ctx)
	return err
}

// A Server may be closed while it is used in every way. Afterwards no grant is left, and the next host can begin.
func TestCloseWhileUsed(t *testing.T) {
	served, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	for range rounds() {
		s := &server.Server{State: state, Logf: func(string, ...any) {},
			Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "d", URL: "overlay:physical:" + served}}}
		check.OK(t, s.Start(t.Context()))
		g, err := s.Grant(t.Context(), server.Guest{Name: "all"})
		check.OK(t, err)
		conn, err := client.Dial(t.Context(), g.Locator)
		check.OK(t, err)
		work, ready := users(t, s, conn.Dir(t.Context()))
		<-ready
		check.OK(t, s.Close())
		for _, g := range s.Grants() {
			if got, want := string(g.State), "revoked"; got != want {
				t.Fatalf("%+v: %q, want %q", g, got, want)
			}
		}
		work.Wait()
		for _, g := range s.Grants() {
			if got, want := string(g.State), "revoked"; got != want {
				t.Fatalf("%+v: %q, want %q", g, got, want)
			}
		}
		conn.Close()
	}
}

// Of several concurrent calls of Start, one succeeds. A Close or another method meanwhile answers an error, and the Server
// can be closed afterwards.
func TestStartAtOnce(t *testing.T) {
	for range rounds() {
		s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: func(string, ...any) {}, Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}
		var all sync.WaitGroup
		var started atomic.Int32
		for range 4 {
			all.Go(func() {
				err := s.Start(t.Context())
				if err == nil {
					started.Add(1)
				} else if code := vfs.CodeOf(err); code != vfs.Busy && code != vfs.Exists {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := s.Close(); err != nil && vfs.CodeOf(err) != vfs.Busy {
					t.Error(err)
				}
			})
			all.Go(func() {
				s.Mounted()
				s.Grants()
				_, _ = s.Grant(t.Context(), server.Guest{Name: "guest"})
			})
		}
		all.Wait()
		if n := started.Load(); n != 1 {
			t.Fatalf("%d starts succeeded, want 1", n)
		}
		check.OK(t, s.Close())
		_, err := s.Load("capd.yaml")
		if !errors.Is(err, vfs.Exists) {
			t.Fatalf("%v, want %v", err, vfs.Exists)
		}
		next := &server.Server{State: s.State}
		if err := next.Start(t.Context()); err != nil {
			t.Fatalf("the state directory is free: %v", err)
		}
		check.OK(t, next.Close())
	}
}

// What is mounted at the path of a grant later is not what was granted, unless it is the same directory.
func TestGrantWaitsForItsMount(t *testing.T) {
	granted, other := "physical:"+t.TempDir(), "physical:"+t.TempDir()
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "a/m", URL: granted}}})
	in, err := s.Grant(t.Context(), server.Guest{Name: "in", Path: "a/m"})
	check.OK(t, err)
	above, err := s.Grant(t.Context(), server.Guest{Name: "above", Path: "a"})
	check.OK(t, err)
	held := holder(t, in.Locator)
	_, err = held.Put(t.Context(), "f", strings.NewReader("old"), vfs.If{})
	check.OK(t, err)
	remount := func(url string) {
		check.OK(t, s.Unmount(t.Context(), "a/m"))
		check.OK(t, s.Mount(t.Context(), server.Mount{Path: "a/m", URL: url}))
	}
	remount(other)
	for what, locator := range map[string]string{"in": in.Locator, "above": above.Locator} {
		if err := stat(t.Context(), locator); (what == "in") != errors.Is(err, vfs.Stale) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err = held.Put(t.Context(), "f", strings.NewReader("mine"), vfs.If{})
	if !errors.Is(err, vfs.Stale) {
		t.Fatalf("%v, want %v", err, vfs.Stale)
	}
	remount(granted)
	text, _, err := holder(t, in.Locator).OpenFile("f").ReadText(t.Context())
	check.OK(t, err)
	if got, want := text, "old"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	_, _, err = held.OpenFile("f").ReadText(t.Context())
	if !errors.Is(err, vfs.Stale) {
		t.Fatalf("what was open before: %v, want %v", err, vfs.Stale)
	}
}

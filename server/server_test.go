package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/client"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// started starts s, and closes it with the test.
func started(t *testing.T, s *server.Server) *server.Server {
	t.Helper()
	if s.State == "" {
		s.State = filepath.Join(t.TempDir(), "state")
	}
	s.Logf = t.Logf
	check.OK(t, s.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

// holder connects a guest of s by a locator.
func holder(t *testing.T, locator string) *client.Dir {
	t.Helper()
	conn, err := client.Dial(t.Context(), locator)
	check.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.Dir(t.Context())
}

func named(t *testing.T, s *server.Server, g server.Guest) *client.Dir {
	t.Helper()
	given, err := s.Grant(t.Context(), g)
	check.OK(t, err)
	return holder(t, given.Locator)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// An unsafe combination is refused before anything is made for it.
func TestUnsafe(t *testing.T) {
	served := t.TempDir()
	inside := filepath.Join(served, "deep", "state")
	memoryStore := func(context.Context, *server.URL) (*server.Store, error) {
		return &server.Store{Root: memory.New(memory.Limits{}).Root}, nil
	}
	for name, s := range map[string]*server.Server{
		"the state directory in a mount":        {State: inside, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}},
		"the state directory itself":            {State: served, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}},
		"the state directory under an overlay":  {State: inside, Mounts: []server.Mount{{Path: "p", URL: "overlay:physical:" + served}}},
		"an own store in the place of another":  {Stores: map[string]server.Opener{"physical": memoryStore}},
		"an own store called overlay":           {Stores: map[string]server.Opener{"overlay": memoryStore}},
		"a kind of store that is not there":     {Mounts: []server.Mount{{Path: "p", URL: "ftp:x"}}},
		"an address that is none":               {Listen: []server.Address{"localhost:7"}},
		"an advertised address that names none": {Listen: []server.Address{"tls::0"}, Advertise: "0.0.0.0"},
		"an advertised address for one address": {Listen: []server.Address{"tls:localhost:0"}, Advertise: "example.org"},
		"a socket that its owner cannot use":    {Socket: server.Socket{Mode: 0o060}},
	} {
		t.Run(name, func(t *testing.T) {
			if s.State == "" {
				s.State = filepath.Join(t.TempDir(), "state")
			}
			if err := s.Start(t.Context()); !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v, want %v", err, vfs.Invalid)
			}
			if err := s.Serve(t.Context()); !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v, want %v", err, vfs.Invalid)
			}
			if s.State != served {
				if _, err := os.Stat(s.State); err == nil {
					t.Fatalf("%s exists", s.State)
				}
			}
		})
	}
	s := started(t, &server.Server{State: inside})
	if err := s.Mount(t.Context(), server.Mount{Path: "p", URL: "physical:" + served}); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("while it runs, too: %v, want %v", err, vfs.Invalid)
	}
	if err := s.Mount(t.Context(), server.Mount{Path: "p", URL: "overlay:physical:" + served}); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if err := s.Mount(t.Context(), server.Mount{Path: "p", URL: "overlay:upper=" + served + ":memory:"}); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if got := s.Mounted(); len(got) != 0 {
		t.Fatalf("mounts that were refused are listed: %v", got)
	}
}

// The defaults withhold secrets, protect files that run programs, and bound guests.
func TestZeroValueIsSafe(t *testing.T) {
	served := t.TempDir()
	write(t, filepath.Join(served, ".env"), "secret")
	write(t, filepath.Join(served, ".git", "config"), "[core]")
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "o", URL: "overlay:physical:" + served}}})
	d := named(t, s, server.Guest{Name: "guest"})
	for _, at := range []string{"p", "o"} {
		_, _, err := d.OpenFile(at + "/.env").ReadText(t.Context())
		if !errors.Is(err, vfs.Denied) {
			t.Fatalf("%v, want %v", err, vfs.Denied)
		}
	}
	_, err := d.OpenFile("p/.git/config").WriteText(t.Context(), "x", vfs.If{})
	check.Is(t, "a guarded file", err, vfs.AskDenied)
	_, err = d.OpenFile("o/.git/config").WriteText(t.Context(), "x", vfs.If{})
	check.OK(t, err) // it waits in the overlay
	_, err = s.Apply(t.Context(), "o", server.ApplyOptions{})
	check.Is(t, "applying it", err, vfs.AskDenied)
	all := s.Grants()
	if got := all; len(got) != 1 {
		t.Fatalf("%v, want %d", got, 1)
	}
	m, err := s.Authority().Meter(t.Context(), all[0].ID)
	check.OK(t, err)
	for _, u := range m.Uses() {
		if u.Kind.String() == "connections" {
			if got := u.Limit; got <= 0 {
				t.Fatalf("%v, want more than 0", got)
			}
		}
	}
	for _, name := range []string{"control.sock", "guest.sock"} {
		fi, err := os.Stat(filepath.Join(s.State, name))
		check.OK(t, err)
		if got := fi.Mode().Perm() & 0o077; got != 0 {
			t.Fatalf("%v: %v, want 0", name, got)
		}
	}
}

// A start that fails leaves nothing behind. Its error says where the mistake was written.
func TestStartFails(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	bad := server.Mount{Path: "p", URL: "git:" + t.TempDir() + "#main", Where: "here:1:2"}
	for _, s := range []*server.Server{
		{State: state, Mounts: []server.Mount{{Path: "m", URL: "memory:"}, bad}},
		{State: state, Listen: []server.Address{"tls:203.0.113.1:0"}},
		{State: state, Mounts: []server.Mount{{Path: "m", URL: "memory:"}, {Path: "m", URL: "memory:"}}},
	} {
		err := s.Start(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		if len(s.Mounts) > 0 && s.Mounts[1].Where != "" {
			if !strings.Contains(err.Error(), "here:1:2: ") {
				t.Fatalf("%v, want %q", err, "here:1:2: ")
			}
		}
		check.OK(t, s.Close())
		left, err := filepath.Glob(filepath.Join(state, "*.sock"))
		check.OK(t, err)
		if got := left; len(got) != 0 {
			t.Fatalf("sockets are left: %v", got)
		}
	}
	s := &server.Server{State: state}
	if err := s.Close(); err != nil {
		t.Fatalf("before it was started: %v", err)
	}
	started(t, s)
	if err := s.Start(t.Context()); !errors.Is(err, vfs.Exists) {
		t.Fatalf("%v, want %v", err, vfs.Exists)
	}
	if err := (&server.Server{State: state}).Start(t.Context()); !errors.Is(err, vfs.Busy) {
		t.Fatalf("a host has it: %v, want %v", err, vfs.Busy)
	}
	_, err := s.Grant(t.Context(), server.Guest{Name: "not a name"})
	if !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	_, err = s.Grant(t.Context(), server.Guest{Name: "guest", Path: "nowhere", Where: "here:3:4"})
	if !errors.Is(err, vfs.NotFound) {
		t.Fatalf("%v, want %v", err, vfs.NotFound)
	}
	if err == nil || !strings.Contains(err.Error(), "here:3:4: ") {
		t.Fatalf("%v, want %q", err, "here:3:4: ")
	}
}

// When its context ends Serve ends, and so does every grant.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Listen: []server.Address{"tls:127.0.0.1:0", "tls:localhost:0"},
		Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}
	check.OK(t, s.Start(ctx))
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	g, err := s.Grant(ctx, server.Guest{Name: "guest", Path: "m"})
	check.OK(t, err)
	if got := g.TLS; len(got) != 2 {
		t.Fatalf("%v, want %d", got, 2)
	}
	all := append(slices.Clone(g.TLS), g.Locator)
	for _, text := range []string{fmt.Sprint(g), fmt.Sprintf("%+v", *g), fmt.Sprintf("%v", []any{g})} {
		if got, part := text, `g1 guest "m" read-write`; !strings.Contains(got, part) {
			t.Fatalf("%q does not contain %q", got, part)
		}
		if got, part := text, "capnp:"; strings.Contains(got, part) {
			t.Fatalf("a log has no locator: %q contains %q", got, part)
		}
	}
	var held []*client.Dir
	for _, locator := range all {
		d := holder(t, locator)
		_, err := d.Stat(t.Context())
		check.OK(t, err)
		held = append(held, d)
	}
	cancel()
	check.OK(t, <-done)
	for _, d := range held {
		_, err := d.Stat(t.Context())
		if got, part := ([]vfs.Code{vfs.Revoked, vfs.Stale}), vfs.CodeOf(err); !slices.Contains(got, part) {
			t.Fatalf("%q does not contain %q", got, part)
		}
	}
	for _, locator := range all {
		_, err := client.Dial(t.Context(), locator)
		if !errors.Is(err, vfs.Stale) {
			t.Fatalf("%v, want %v", err, vfs.Stale)
		}
	}
	for _, name := range []string{"control.sock", "guest.sock", "listeners.json"} {
		if _, err := os.Stat(filepath.Join(s.State, name)); err == nil {
			t.Fatalf("%s exists", filepath.Join(s.State, name))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, vfs.Exists) {
		t.Fatalf("%v, want %v", err, vfs.Exists)
	}
}

// The host mounts, applies and reverts while guests work.
func TestWhileItRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "served/f", "old")
	s := started(t, &server.Server{Stores: map[string]server.Opener{"mine": func(_ context.Context, u *server.URL) (*server.Store, error) {
		if got, want := u.Path, "x"; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		return &server.Store{Root: memory.New(memory.Limits{}).Root}, nil
	}}})
	ctx := t.Context()
	if err := s.Mount(ctx, server.Mount{Path: "draft", URL: "overlay:physical:served"}); err != nil {
		t.Fatalf("relative to the working directory: %v", err)
	}
	check.OK(t, s.Mount(ctx, server.Mount{Path: "own", URL: "mine:x"}))
	check.OK(t, s.Mount(ctx, server.Mount{Path: "layered", URL: "overlay:mine:x"}))
	d := named(t, s, server.Guest{Name: "guest"})
	for _, path := range []string{"draft/f", "draft/g", "own/f", "layered/f"} {
		_, err := d.Put(ctx, path, strings.NewReader("new"), vfs.If{})
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
	}
	changes, review, err := s.Diff(ctx, "draft", server.DiffOptions{Paths: []string{"f"}})
	check.OK(t, err)
	if got := changes; len(got) != 1 {
		t.Fatalf("%v, want %d", got, 1)
	}
	applied, err := s.Apply(ctx, "draft", server.ApplyOptions{Paths: []string{"f"}, If: review})
	check.OK(t, err)
	if got, want := applied.Changes, 1; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	n, err := s.Revert(ctx, "draft")
	check.OK(t, err)
	if got, want := n, 1; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	text, err := os.ReadFile("served/f")
	check.OK(t, err)
	if got, want := string(text), "new"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if _, err := os.Stat("served/g"); err == nil {
		t.Fatalf("%s exists", "served/g")
	}

	check.OK(t, s.Unmount(ctx, "own"))
	if err := s.Unmount(ctx, "own"); !errors.Is(err, vfs.NotFound) {
		t.Fatalf("%v, want %v", err, vfs.NotFound)
	}
	var paths []string
	for _, m := range s.Mounted() {
		paths = append(paths, m.Path)
	}
	if got, want := paths, ([]string{"draft", "layered"}); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for what, do := range map[string]func() (int, error){
		"locks":  func() (int, error) { return s.SetWritable("guest", false) },
		"limits": func() (int, error) { return s.SetLimits("guest", server.Limits{}) },
		"revoke": func() (int, error) { return s.Revoke("guest") },
	} {
		n, err := do()
		if !(n == 1 && err == nil || vfs.CodeOf(err) == vfs.Revoked) {
			t.Fatalf("%s: %d grants, %v; want 1 grant, or revoked", what, n, err)
		}
	}
}

// Grants lists all grants, however many there are.
func TestGrants(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}})
	for range 2001 {
		_, err := s.Grant(t.Context(), server.Guest{Name: "guest", Path: "m"})
		check.OK(t, err)
	}
	all := s.Grants()
	if got := all; len(got) != 2001 {
		t.Fatalf("%v, want %d", got, 2001)
	}
	if got, want := all[2000].ID, "g2001"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/client"
	"capd/server"
	"capd/vfs"
)

// started starts s, and closes it with the test.
func started(t *testing.T, s *server.Server) *server.Server {
	t.Helper()
	if s.State == "" {
		s.State = filepath.Join(t.TempDir(), "state")
	}
	s.Logf = t.Logf
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// holder connects a guest of s by a locator.
func holder(t *testing.T, locator string) *client.Dir {
	t.Helper()
	conn, err := client.Dial(t.Context(), locator)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.Dir(t.Context())
}

func named(t *testing.T, s *server.Server, g server.Guest) *client.Dir {
	t.Helper()
	given, err := s.Grant(t.Context(), g)
	require.NoError(t, err)
	return holder(t, given.Locator)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
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
			require.ErrorIs(t, s.Start(t.Context()), vfs.Invalid)
			require.ErrorIs(t, s.Serve(t.Context()), vfs.Invalid)
			if s.State != served {
				require.NoDirExists(t, s.State)
			}
		})
	}
	s := started(t, &server.Server{State: inside})
	require.ErrorIs(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: "physical:" + served}), vfs.Invalid, "while it runs, too")
	require.ErrorIs(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: "overlay:physical:" + served}), vfs.Invalid)
	require.ErrorIs(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: "overlay:upper=" + served + ":memory:"}), vfs.Invalid)
	require.Empty(t, s.Mounted())
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
		require.ErrorIs(t, err, vfs.Denied)
		_, err = d.OpenFile(at+"/.git/config").WriteText(t.Context(), "x", vfs.If{})
		require.ErrorIs(t, err, vfs.AskDenied)
	}
	all := s.Grants()
	require.Len(t, all, 1)
	m, err := s.Authority().Meter(all[0].ID)
	require.NoError(t, err)
	for _, u := range m.Uses() {
		if u.Kind.String() == "connections" {
			require.Positive(t, u.Limit)
		}
	}
	for _, name := range []string{"control.sock", "guest.sock"} {
		fi, err := os.Stat(filepath.Join(s.State, name))
		require.NoError(t, err)
		require.Zero(t, fi.Mode().Perm()&0o077, name)
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
		require.Error(t, err)
		if len(s.Mounts) > 0 && s.Mounts[1].Where != "" {
			require.ErrorContains(t, err, "here:1:2: ")
		}
		require.NoError(t, s.Close())
		left, err := filepath.Glob(filepath.Join(state, "*.sock"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	s := &server.Server{State: state}
	require.NoError(t, s.Close(), "before it was started")
	started(t, s)
	require.ErrorIs(t, s.Start(t.Context()), vfs.Exists)
	require.ErrorIs(t, (&server.Server{State: state}).Start(t.Context()), vfs.Busy, "a host has it")
	_, err := s.Grant(t.Context(), server.Guest{Name: "not a name"})
	require.ErrorIs(t, err, vfs.Invalid)
	_, err = s.Grant(t.Context(), server.Guest{Name: "guest", Path: "nowhere", Where: "here:3:4"})
	require.ErrorIs(t, err, vfs.NotFound)
	require.ErrorContains(t, err, "here:3:4: ")
}

// When its context ends Serve ends, and so does every grant.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Listen: []server.Address{"tls:127.0.0.1:0", "tls:localhost:0"},
		Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}
	require.NoError(t, s.Start(ctx))
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	g, err := s.Grant(ctx, server.Guest{Name: "guest", Path: "m"})
	require.NoError(t, err)
	require.Len(t, g.TLS, 2)
	all := append(slices.Clone(g.TLS), g.Locator)
	for _, text := range []string{fmt.Sprint(g), fmt.Sprintf("%+v", *g), fmt.Sprintf("%v", []any{g})} {
		require.Contains(t, text, `g1 guest "m" read-write`)
		require.NotContains(t, text, "capnp:", "a log has no locator")
	}
	var held []*client.Dir
	for _, locator := range all {
		d := holder(t, locator)
		_, err := d.Stat(t.Context())
		require.NoError(t, err)
		held = append(held, d)
	}
	cancel()
	require.NoError(t, <-done)
	for _, d := range held {
		_, err := d.Stat(t.Context())
		require.Contains(t, []vfs.Code{vfs.Revoked, vfs.Stale}, vfs.CodeOf(err))
	}
	for _, locator := range all {
		_, err := client.Dial(t.Context(), locator)
		require.ErrorIs(t, err, vfs.Stale)
	}
	for _, name := range []string{"control.sock", "guest.sock", "listeners.json"} {
		require.NoFileExists(t, filepath.Join(s.State, name))
	}
	require.NoError(t, s.Close(), "a second time")
	require.ErrorIs(t, s.Start(t.Context()), vfs.Exists)
}

// The host mounts, applies and reverts while guests work.
func TestWhileItRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "served/f", "old")
	s := started(t, &server.Server{Stores: map[string]server.Opener{"mine": func(_ context.Context, u *server.URL) (*server.Store, error) {
		require.Equal(t, "x", u.Path)
		return &server.Store{Root: memory.New(memory.Limits{}).Root}, nil
	}}})
	ctx := t.Context()
	require.NoError(t, s.Mount(ctx, server.Mount{Path: "draft", URL: "overlay:physical:served"}), "relative to the working directory")
	require.NoError(t, s.Mount(ctx, server.Mount{Path: "own", URL: "mine:x"}))
	require.NoError(t, s.Mount(ctx, server.Mount{Path: "layered", URL: "overlay:mine:x"}))
	d := named(t, s, server.Guest{Name: "guest"})
	for _, path := range []string{"draft/f", "draft/g", "own/f", "layered/f"} {
		_, err := d.Put(ctx, path, strings.NewReader("new"), vfs.If{})
		require.NoError(t, err, path)
	}
	changes, review, err := s.Diff(ctx, "draft", server.DiffOptions{Paths: []string{"f"}})
	require.NoError(t, err)
	require.Len(t, changes, 1)
	applied, err := s.Apply(ctx, "draft", server.ApplyOptions{Paths: []string{"f"}, If: review})
	require.NoError(t, err)
	require.Equal(t, 1, applied.Changes)
	n, err := s.Revert(ctx, "draft")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	text, err := os.ReadFile("served/f")
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	require.NoFileExists(t, "served/g")

	require.NoError(t, s.Unmount(ctx, "own"))
	require.ErrorIs(t, s.Unmount(ctx, "own"), vfs.NotFound)
	var paths []string
	for _, m := range s.Mounted() {
		paths = append(paths, m.Path)
	}
	require.Equal(t, []string{"draft", "layered"}, paths)
	for what, do := range map[string]func() (int, error){
		"locks":  func() (int, error) { return s.SetWritable("guest", false) },
		"limits": func() (int, error) { return s.SetLimits("guest", server.Limits{}) },
		"revoke": func() (int, error) { return s.Revoke("guest") },
	} {
		n, err := do()
		require.True(t, n == 1 && err == nil || vfs.CodeOf(err) == vfs.Revoked, "%s: %d, %v", what, n, err)
	}
}

// Grants lists all grants, however many there are.
func TestGrants(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}})
	for range 2001 {
		_, err := s.Grant(t.Context(), server.Guest{Name: "guest", Path: "m"})
		require.NoError(t, err)
	}
	all := s.Grants()
	require.Len(t, all, 2001)
	require.Equal(t, "g2001", all[2000].ID)
}

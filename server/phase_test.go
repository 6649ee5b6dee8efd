package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"capd/backend/memory"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// methods are the methods of a Server that need a host that serves.
func methods(ctx context.Context, s *server.Server) map[string]error {
	all := map[string]error{}
	_, all["Grant"] = s.Grant(ctx, server.Guest{Name: "guest"})
	_, all["Revoke"] = s.Revoke("guest")
	_, all["SetWritable"] = s.SetWritable("guest", true)
	_, all["SetLimits"] = s.SetLimits("guest", nil)
	_, _, all["Diff"] = s.Diff(ctx, "m", server.DiffOptions{})
	_, all["Apply"] = s.Apply(ctx, "m", server.ApplyOptions{})
	_, all["Revert"] = s.Revert(ctx, "m")
	all["Mount"] = s.Mount(ctx, server.Mount{Path: "other", URL: "memory:"})
	all["Unmount"] = s.Unmount(ctx, "m")
	return all
}

// requireAll requires that every method answers the code, and that nothing is listed.
func requireAll(t *testing.T, s *server.Server, want vfs.Code) {
	t.Helper()
	for name, err := range methods(t.Context(), s) {
		if !errors.Is(err, want) {
			t.Fatalf("%v: %v, want %v", name, err, want)
		}
	}
	if got := s.Notes(); len(got) != 0 {
		t.Fatalf("a host that does not run has notes: %v", got)
	}
	if got := s.Mounted(); len(got) != 0 {
		t.Fatalf("a host that does not run has mounts: %v", got)
	}
}

// A method answers a clear error before the start, after a start that failed, and after the end.
func TestPhases(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "memory:"}, {Path: "m", URL: "memory:"}}}
	requireAll(t, s, vfs.Invalid)
	if got := s.Grants(); len(got) != 0 {
		t.Fatalf("a host that does not run has grants: %v", got)
	}
	if got := s.FS(); got != nil {
		t.Fatalf("%v, want nil", got)
	}
	if got := s.Authority(); got != nil {
		t.Fatalf("%v, want nil", got)
	}
	check.OK(t, s.Close())

	if err := s.Start(t.Context()); !errors.Is(err, vfs.Exists) {
		t.Fatalf("%v, want %v", err, vfs.Exists)
	}
	requireAll(t, s, vfs.Invalid)
	if got := s.Grants(); len(got) != 0 {
		t.Fatalf("a host that does not run has grants: %v", got)
	}
	if got := s.Authority(); got != nil {
		t.Fatalf("%v, want nil", got)
	}

	s.Mounts = s.Mounts[:1]
	check.OK(t, s.Start(t.Context()))
	_, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
	check.OK(t, err)
	check.OK(t, s.Close())
	requireAll(t, s, vfs.Stale)
	if got := s.Grants(); len(got) != 0 {
		t.Fatalf("a host that has ended has grants: %v", got)
	}
	if err := s.Serve(t.Context()); err != nil {
		t.Fatalf("it has ended already: %v", err)
	}
}

// An opener may use the Server that calls it.
func TestOpenerUsesItsServer(t *testing.T) {
	var s *server.Server
	during := map[string]error{}
	s = &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "own:"}}}
	s.Stores = map[string]server.Opener{"own": func(ctx context.Context, u *server.URL) (*server.Store, error) {
		switch u.Path {
		case "":
			during = methods(ctx, s)
			during["Start"] = s.Start(ctx)
			during["Serve"] = s.Serve(ctx)
			during["Close"] = s.Close()
		case "mounts":
			during["Mount"] = s.Mount(ctx, server.Mount{Path: "nested", URL: "memory:"})
			during["the same"] = s.Mount(ctx, server.Mount{Path: "at", URL: "memory:"})
		case "closes":
			during["Close"] = s.Close()
		}
		return &server.Store{Root: memory.New(memory.Limits{}).Root}, nil
	}}
	check.OK(t, s.Start(t.Context()))
	for name, err := range during {
		want := vfs.Invalid
		if name == "Start" || name == "Serve" || name == "Close" {
			want = vfs.Busy
		}
		if !errors.Is(err, want) {
			t.Fatalf("%v: %v, want %v", name, err, want)
		}
	}
	clear(during)
	check.OK(t, s.Mount(t.Context(), server.Mount{Path: "at", URL: "own:mounts"}))
	check.OK(t, during["Mount"])
	if err := during["the same"]; !errors.Is(err, vfs.Busy) {
		t.Fatalf("%v, want %v", err, vfs.Busy)
	}
	if err := s.Mount(t.Context(), server.Mount{Path: "late", URL: "own:closes"}); !errors.Is(err, vfs.Stale) {
		t.Fatalf("%v, want %v", err, vfs.Stale)
	}
	check.OK(t, during["Close"])
	if err := s.Start(t.Context()); !errors.Is(err, vfs.Exists) {
		t.Fatalf("%v, want %v", err, vfs.Exists)
	}
}

// A context that is nil is a mistake, and costs nothing else.
func TestNilContext(t *testing.T) {
	var none context.Context
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "overlay:memory:"}}}
	if err := s.Start(none); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if err := s.Serve(none); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	check.OK(t, s.Start(t.Context()))
	for name, err := range methods(none, s) {
		switch name {
		case "Revoke", "SetWritable", "SetLimits":
			if !errors.Is(err, vfs.NotFound) {
				t.Fatalf("%v: %v, want %v", name, err, vfs.NotFound)
			}
		default:
			if !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v: %v, want %v", name, err, vfs.Invalid)
			}
		}
	}
	if err := s.Serve(none); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if got := s.Mounted(); len(got) == 0 {
		t.Fatalf("it serves on: %v", got)
	}
	check.OK(t, s.Close())
}

// A host that was closed leaves a state directory in which the next can begin, with the grants. Two hosts can be in one process.
func TestRestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}) // beside it
	var old []string
	for range 3 {
		s := &server.Server{State: state, Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}
		ctx, end := context.WithCancel(t.Context())
		check.OK(t, s.Start(ctx))
		g, err := s.Grant(ctx, server.Guest{Name: "guest"})
		check.OK(t, err)
		check.OK(t, stat(ctx, g.Locator))
		for _, locator := range old {
			check.OK(t, stat(ctx, locator))
		}
		old = append(old, g.Locator)
		end()
		check.OK(t, s.Serve(ctx))
	}
}

package server_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/server"
	"capd/vfs"
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
		require.ErrorIs(t, err, want, name)
	}
	require.Empty(t, s.Notes())
	require.Empty(t, s.Mounted())
}

// A method answers a clear error before the start, after a start that failed, and after the end.
func TestPhases(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "memory:"}, {Path: "m", URL: "memory:"}}}
	requireAll(t, s, vfs.Invalid)
	require.Empty(t, s.Grants())
	require.Nil(t, s.FS())
	require.Nil(t, s.Authority())
	require.NoError(t, s.Close())

	require.ErrorIs(t, s.Start(t.Context()), vfs.Exists)
	requireAll(t, s, vfs.Invalid)
	require.Empty(t, s.Grants())
	require.Nil(t, s.Authority())

	s.Mounts = s.Mounts[:1]
	require.NoError(t, s.Start(t.Context()))
	g, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	requireAll(t, s, vfs.Stale)
	require.Equal(t, []server.Grant{{Guest: "guest", ID: g.ID, Mode: "read-write", State: "revoked"}}, s.Grants())
	require.NoError(t, s.Serve(t.Context()), "it has ended already")
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
	require.NoError(t, s.Start(t.Context()))
	for name, err := range during {
		want := vfs.Invalid
		if name == "Start" || name == "Serve" || name == "Close" {
			want = vfs.Busy
		}
		require.ErrorIs(t, err, want, name)
	}
	clear(during)
	require.NoError(t, s.Mount(t.Context(), server.Mount{Path: "at", URL: "own:mounts"}))
	require.NoError(t, during["Mount"])
	require.ErrorIs(t, during["the same"], vfs.Busy)
	require.ErrorIs(t, s.Mount(t.Context(), server.Mount{Path: "late", URL: "own:closes"}), vfs.Stale)
	require.NoError(t, during["Close"])
	require.ErrorIs(t, s.Start(t.Context()), vfs.Exists)
}

// A context that is nil is a mistake, and costs nothing else.
func TestNilContext(t *testing.T) {
	var none context.Context
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "overlay:memory:"}}}
	require.ErrorIs(t, s.Start(none), vfs.Invalid)
	require.ErrorIs(t, s.Serve(none), vfs.Invalid)
	require.NoError(t, s.Start(t.Context()))
	for name, err := range methods(none, s) {
		switch name {
		case "Revoke", "SetWritable", "SetLimits":
			require.ErrorIs(t, err, vfs.NotFound, name)
		default:
			require.ErrorIs(t, err, vfs.Invalid, name)
		}
	}
	require.ErrorIs(t, s.Serve(none), vfs.Invalid)
	require.NotEmpty(t, s.Mounted(), "it serves on")
	require.NoError(t, s.Close())
}

// A host that was closed leaves a state directory in which the next can begin. Two hosts can be in one process.
func TestRestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}) // beside it
	var old []string
	for range 3 {
		s := &server.Server{State: state, Logf: t.Logf, Mounts: []server.Mount{{Path: "m", URL: "memory:"}}}
		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, s.Start(ctx))
		g, err := s.Grant(ctx, server.Guest{Name: "guest"})
		require.NoError(t, err)
		require.NoError(t, stat(ctx, g.Locator))
		for _, locator := range old {
			require.ErrorIs(t, stat(ctx, locator), vfs.Denied)
		}
		old = append(old, g.Locator)
		end()
		require.NoError(t, s.Serve(ctx))
	}
}

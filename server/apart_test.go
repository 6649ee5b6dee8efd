package server_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/server"
	"capd/vfs"
)

// No mount shows the state directory or what is in it, however it is named.
func TestStateIsNotServed(t *testing.T) {
	top := t.TempDir()
	state, link := filepath.Join(top, "state"), filepath.Join(t.TempDir(), "link")
	s := started(t, &server.Server{State: state})
	if err := os.Symlink(filepath.Join(state, "journal"), link); err != nil {
		link = filepath.Join(state, "journal")
	}
	for _, dir := range []string{top, state, state + "/journal", state + "/../state/materialized", link, link + "/..", top + "/./state//journal"} {
		for _, url := range []string{"physical:" + dir, "physical:" + dir + "?readonly", "overlay:physical:" + dir, "overlay:upper=" + dir + ":memory:"} {
			require.ErrorIs(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: url}), vfs.Invalid, url)
		}
	}
	require.Empty(t, s.Mounted())
	require.NoError(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: "physical:" + t.TempDir()}))
	kept := filepath.Join(state, "unsynced", "20060102-150405-1") // what a run could not sync back is the operator's
	require.NoError(t, os.MkdirAll(kept, 0o700))
	require.NoError(t, s.Mount(t.Context(), server.Mount{Path: "kept", URL: "physical:" + kept}))
	other := &server.Server{State: filepath.Join(top, "other"), Mounts: []server.Mount{{Path: "p", URL: "physical:" + top + "/other/journal"}}}
	require.NoError(t, os.MkdirAll(filepath.Join(top, "other", "journal"), 0o700))
	require.ErrorIs(t, other.Check(), vfs.Invalid)
}

// No mount shows the directory of the guests' socket. A guest who could move it would keep others out.
func TestSocketIsNotServed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no other users to let in")
	}
	served := t.TempDir()
	socket := server.Socket{Mode: 0o666, Dir: filepath.Join(served, "sockets")}
	mount := server.Mount{Path: "p", URL: "physical:" + served}
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Socket: socket, Mounts: []server.Mount{mount}}
	err := s.Start(t.Context())
	require.ErrorIs(t, err, vfs.Invalid)
	require.ErrorContains(t, err, "Socket.Dir")
	require.NoDirExists(t, socket.Dir)
	s = started(t, &server.Server{Socket: socket})
	require.ErrorIs(t, s.Mount(t.Context(), mount), vfs.Invalid)
	mount.URL = "physical:" + os.TempDir()
	s = started(t, &server.Server{Socket: server.Socket{Mode: 0o666}})
	require.ErrorIs(t, s.Mount(t.Context(), mount), vfs.Invalid, "where it usually is")
}

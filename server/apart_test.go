package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
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
			if err := s.Mount(t.Context(), server.Mount{Path: "p", URL: url}); !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v: %v, want %v", url, err, vfs.Invalid)
			}
		}
	}
	if got := s.Mounted(); len(got) != 0 {
		t.Fatalf("mounts that were refused are listed: %v", got)
	}
	check.OK(t, s.Mount(t.Context(), server.Mount{Path: "p", URL: "physical:" + t.TempDir()}))
	kept := filepath.Join(state, "unsynced", "20060102-150405-1") // what a run could not sync back is the operator's
	check.OK(t, os.MkdirAll(kept, 0o700))
	check.OK(t, s.Mount(t.Context(), server.Mount{Path: "kept", URL: "physical:" + kept}))
	other := &server.Server{State: filepath.Join(top, "other"), Mounts: []server.Mount{{Path: "p", URL: "physical:" + top + "/other/journal"}}}
	check.OK(t, os.MkdirAll(filepath.Join(top, "other", "journal"), 0o700))
	if err := other.Check(); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
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
	if !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if err == nil || !strings.Contains(err.Error(), "Socket.Dir") {
		t.Fatalf("%v, want %q", err, "Socket.Dir")
	}
	if _, err := os.Stat(socket.Dir); err == nil {
		t.Fatalf("%s exists", socket.Dir)
	}
	s = started(t, &server.Server{Socket: socket})
	if err := s.Mount(t.Context(), mount); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	mount.URL = "physical:" + os.TempDir()
	s = started(t, &server.Server{Socket: server.Socket{Mode: 0o666}})
	if err := s.Mount(t.Context(), mount); !errors.Is(err, vfs.Invalid) {
		t.Fatalf("where it usually is: %v, want %v", err, vfs.Invalid)
	}
}

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

// No mount shows what an overlay writes to: what is withheld in the overlay lies there too, and the overlay's changes could
// be changed without it.
func TestUpperIsNotServed(t *testing.T) {
	top := t.TempDir()
	dir := func(name string) string {
		at := filepath.Join(top, name)
		check.OK(t, os.MkdirAll(at, 0o700))
		return at
	}
	upper, served := dir("around/upper"), dir("served")
	link := filepath.Join(dir("links"), "to")
	if err := os.Symlink(filepath.Dir(upper), link); err != nil {
		link = filepath.Dir(upper)
	}
	overlay := "overlay:upper=" + upper + ":memory:"
	repo, _, clean := scene()
	defer clean()
	git := server.GitURL(repo, "main")
	s := started(t, &server.Server{})
	mount := func(path, url string) error { return s.Mount(t.Context(), server.Mount{Path: path, URL: url}) }
	for _, shows := range []string{upper, filepath.Dir(upper), link, link + "/upper"} {
		for _, o := range []string{overlay, "overlay:upper=" + link + "/upper:" + server.PhysicalURL(served), strings.Replace(git, "#", "?writable&upper="+upper+"#", 1)} {
			for _, url := range []string{server.PhysicalURL(shows), "overlay:" + server.PhysicalURL(shows)} {
				for _, order := range [][2]string{{o, url}, {url, o}} {
					check.OK(t, mount("first", order[0]))
					err := mount("second", order[1])
					if check.Is(t, order[0]+" and "+order[1], err, vfs.Invalid); err != nil && !strings.Contains(err.Error(), "upper=") {
						t.Errorf("%s and %s: %v", order[0], order[1], err)
					}
					check.OK(t, s.Unmount(t.Context(), "first"))
				}
			}
		}
	}
	check.OK(t, mount("o", overlay))
	check.OK(t, mount("beside", server.PhysicalURL(served)))
	below := dir("around/upper/deep")
	check.Is(t, "a part", mount("p", server.PhysicalURL(below)), vfs.Invalid)
	check.Is(t, "an overlay that writes into another's", mount("p", "overlay:upper="+below+":memory:"), vfs.Invalid)
	check.Is(t, "the same directory", mount("p", overlay), vfs.Busy)
	check.OK(t, mount("q", server.PhysicalURL(dir("seen"))))
	check.Is(t, "what is served", mount("p", "overlay:upper="+dir("seen")+":memory:"), vfs.Invalid)
	if left, err := os.ReadDir(dir("seen")); err != nil || len(left) > 0 {
		t.Errorf("%v was left, %v", left, err)
	}
	for _, in := range []string{"seen", "around/upper", "served"} { // nothing is left of what is refused
		made := filepath.Join(top, in, "made")
		check.Is(t, made, mount("p", "overlay:upper="+made+":"+server.PhysicalURL(served)), vfs.Invalid)
		if _, err := os.Lstat(made); err == nil {
			t.Errorf("%s was made", made)
		}
	}
	check.OK(t, s.Unmount(t.Context(), "o"))
	check.OK(t, mount("p", server.PhysicalURL(upper)))
}

package server_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A directory that a bind mount shows at two places is the same directory at both.
func TestStateBehindBindMount(t *testing.T) {
	if dir := os.Getenv("CAPD_TEST_BOUND"); dir != "" {
		bound(t, dir)
		return
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("bubblewrap is not installed")
	}
	dir := t.TempDir()
	for _, sub := range []string{"served/a b/deep", "elsewhere", "other"} {
		check.OK(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	cmd := exec.Command(bwrap, "--bind", "/", "/", "--bind", dir+"/served/a b", dir+"/elsewhere", os.Args[0], "-test.run=^TestStateBehindBindMount$", "-test.v")
	cmd.Env = append(os.Environ(), "CAPD_TEST_BOUND="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v", string(out), err)
	}
	if got, part := string(out), "--- PASS"; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
}

// bound runs where dir/elsewhere shows dir/served/a b.
func bound(t *testing.T, dir string) {
	for _, c := range []struct {
		state, served string
		ok            bool
	}{
		{"elsewhere/state", "served", false},
		{"elsewhere/deep/state", "served/a b/deep", false},
		{"served/a b/state", "elsewhere", false},
		{"elsewhere", "served/a b/deep", false}, // in the state directory
		{"elsewhere/state", "other", true},
		{"elsewhere/state", "served/a b/deep", true},
		{"other/state", "served", true},
	} {
		s := &server.Server{State: filepath.Join(dir, c.state), Mounts: []server.Mount{{Path: "p", URL: "physical:" + filepath.Join(dir, c.served)}}}
		if c.ok {
			if err := s.Check(); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
		} else {
			if err := s.Check(); !errors.Is(err, vfs.Invalid) {
				t.Fatalf("%v: %v, want %v", c, err, vfs.Invalid)
			}
		}
	}
}

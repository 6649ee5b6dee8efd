package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/server"
	"capd/vfs"
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
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	cmd := exec.Command(bwrap, "--bind", "/", "/", "--bind", dir+"/served/a b", dir+"/elsewhere", os.Args[0], "-test.run=^TestStateBehindBindMount$", "-test.v")
	cmd.Env = append(os.Environ(), "CAPD_TEST_BOUND="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS")
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
			require.NoError(t, s.Check(), c)
		} else {
			require.ErrorIs(t, s.Check(), vfs.Invalid, c)
		}
	}
}

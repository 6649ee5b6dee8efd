//go:build unix

package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/vfs"
)

// A state directory that another user could replace by one of theirs is refused: whoever connects to the host's sockets
// would reach somebody else.
func TestReplaceableState(t *testing.T) {
	const other = 65534
	top := t.TempDir()
	dir := func(name string, mode os.FileMode, uid int) string {
		at := filepath.Join(top, name)
		require.NoError(t, os.Mkdir(at, 0o700))
		require.NoError(t, os.Chmod(at, mode))
		if uid != 0 {
			require.NoError(t, os.Chown(at, uid, uid))
		}
		return at
	}
	link := func(name, target string, uid int) string {
		at := filepath.Join(top, name)
		require.NoError(t, os.Symlink(target, at))
		if uid != 0 {
			require.NoError(t, os.Lchown(at, uid, uid))
		}
		return at
	}
	mine := dir("mine", 0o755, 0)
	open := dir("open", 0o777, 0)
	sticky := dir("sticky", 0o777|os.ModeSticky, 0)
	require.NoError(t, os.Mkdir(filepath.Join(open, "made"), 0o700))
	link("to-mine", mine, 0)
	require.NoError(t, os.Symlink(mine, filepath.Join(open, "hop")))
	link("to-hop", filepath.Join(open, "hop"), 0)
	link("round", "round", 0)
	cases := map[string]bool{
		mine + "/state": true, mine + "/a/b/state": true, sticky + "/state": true, top + "/to-mine": true, top + "/to-mine/state": true,
		open + "/state": false, open + "/made": false, open + "/made/deep/state": false, open + "/hop/state": false,
		top + "/to-hop": false, top + "/to-hop/state": false, top + "/round/state": false,
	}
	if os.Geteuid() == 0 {
		theirs := dir("theirs", 0o755, other)
		link("their-link", mine, other)
		cases[theirs+"/state"] = false
		cases[top+"/their-link"], cases[top+"/their-link/state"] = false, false
	}
	for path, ok := range cases {
		unlock, err := Dir(path).Lock()
		if !ok {
			require.ErrorIs(t, err, vfs.Denied, path)
			continue
		}
		require.NoError(t, err, path)
		unlock()
	}
}

// Nor is one in which others can write somewhere: the host does what a journal says.
func TestOthersWriteInState(t *testing.T) {
	for _, name := range []string{"journal", "materialized", "cas", "caches", "unsynced"} {
		d := Dir(t.TempDir())
		require.NoError(t, os.Mkdir(d.join(name), 0o700))
		require.NoError(t, os.Chmod(d.join(name), 0o777))
		_, err := d.Lock()
		require.ErrorIs(t, err, vfs.Denied, name)
		require.ErrorContains(t, err, d.join(name))
		require.NoError(t, os.Chmod(d.join(name), 0o755))
		unlock, err := d.Lock()
		require.NoError(t, err, name)
		unlock()
	}
}

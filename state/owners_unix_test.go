//go:build unix

package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A state directory that another user could replace is refused. Otherwise those who connect to the host's sockets could
// reach that user's.
func TestReplaceableState(t *testing.T) {
	const other = 65534
	top := t.TempDir()
	dir := func(name string, mode os.FileMode, uid int) string {
		at := filepath.Join(top, name)
		check.OK(t, os.Mkdir(at, 0o700))
		check.OK(t, os.Chmod(at, mode))
		if uid != 0 {
			check.OK(t, os.Chown(at, uid, uid))
		}
		return at
	}
	link := func(name, target string, uid int) string {
		at := filepath.Join(top, name)
		check.OK(t, os.Symlink(target, at))
		if uid != 0 {
			check.OK(t, os.Lchown(at, uid, uid))
		}
		return at
	}
	mine := dir("mine", 0o755, 0)
	open := dir("open", 0o777, 0)
	sticky := dir("sticky", 0o777|os.ModeSticky, 0)
	check.OK(t, os.Mkdir(filepath.Join(open, "made"), 0o700))
	link("to-mine", mine, 0)
	check.OK(t, os.Symlink(mine, filepath.Join(open, "hop")))
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
			if !errors.Is(err, vfs.Denied) {
				t.Fatalf("%v: %v, want %v", path, err, vfs.Denied)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		unlock()
	}
}

// Nor is one in which others can write somewhere: the host does what a journal says.
func TestOthersWriteInState(t *testing.T) {
	for _, name := range []string{"journal", "materialized", "cas", "caches", "unsynced"} {
		d := Dir(t.TempDir())
		check.OK(t, os.Mkdir(d.join(name), 0o700))
		check.OK(t, os.Chmod(d.join(name), 0o777))
		_, err := d.Lock()
		if !errors.Is(err, vfs.Denied) {
			t.Fatalf("%v: %v, want %v", name, err, vfs.Denied)
		}
		if err == nil || !strings.Contains(err.Error(), d.join(name)) {
			t.Fatalf("%v, want %q", err, d.join(name))
		}
		check.OK(t, os.Chmod(d.join(name), 0o755))
		unlock, err := d.Lock()
		if err != nil {
			t.Fatalf("%v: %v", name, err)
		}
		unlock()
	}
}

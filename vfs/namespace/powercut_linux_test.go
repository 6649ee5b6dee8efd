package namespace_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/tests/powercut"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// TestMovePowerCut: after a power cut at any moment of a move between two directories,
// every file is whole in at least one of them. A move that has answered is done.
func TestMovePowerCut(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	check.OK(t, os.Mkdir(a, 0o755))
	check.OK(t, os.Mkdir(b, 0o755))
	tree := vfstest.Tree{"d/x": {Data: "#!", Exec: true}, "d/e/g": {Data: strings.Repeat("long", 2_000)}, "d/e/h": {Data: "h"}, "d/l": {Link: "x"}}
	var before map[string]string
	onDisk(t, a, func(d vfs.Dir) {
		vfstest.Fill(t, d, tree,
			func(path, target string) error { return os.Symlink(target, filepath.Join(a, path)) },
			func(path string) error { return os.Chmod(filepath.Join(a, path), 0o755) })
		before = nodes(t, d)
	})
	cmd := exec.Command(os.Args[0], "-test.run=^TestMoveKilledChild$")
	cmd.Env = append(os.Environ(), killVar+"="+strings.Join([]string{a, b, "source", "0", "1000000"}, "\n"))
	powercut.Run(t, dir, cmd).Each(t, func(dir string, said []string) error {
		var nowA, nowB map[string]string
		onDisk(t, filepath.Join(dir, "a"), func(d vfs.Dir) { nowA = nodes(t, d) })
		onDisk(t, filepath.Join(dir, "b"), func(d vfs.Dir) { nowB = nodes(t, d) })
		switch {
		case len(nowA) == 0 && maps.Equal(nowB, before):
			return nil
		case len(said) == 0 && (maps.Equal(nowA, before) || maps.Equal(nowB, before)):
			return nil
		}
		return fmt.Errorf("the source has %d nodes and the target %d, of %d", len(nowA), len(nowB), len(before))
	})
}

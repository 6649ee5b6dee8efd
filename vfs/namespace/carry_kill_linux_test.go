package namespace_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

const killVar = "CAPD_VFS_TEST_KILL"

// TestMoveKilledChild runs when TestMoveKilled tells it at which operation. It moves d
// from one directory to another, and is killed there.
func TestMoveKilledChild(t *testing.T) {
	args := strings.Split(os.Getenv(killVar), "\n")
	if len(args) < 5 {
		return
	}
	var stage faultfs.Stage
	var n int
	_, err := fmt.Sscan(args[3]+" "+args[4], &stage, &n)
	check.OK(t, err)
	plans := map[string]*faultfs.Plan{"source": {}, "target": {}}
	ns := namespace.New()
	for i, name := range []string{"source", "target"} {
		s, err := physical.OpenAmbient(args[i], physical.Options{})
		check.OK(t, err)
		check.OK(t, ns.Mount(name, faultfs.New(s.Root(), plans[name]), namespace.Options{}))
	}
	root := membrane.Guarded(ns.Root(), nil)
	from, to := check.DirAt(t, root, "source"), check.DirAt(t, root, "target")
	pause := plans[args[2]].Pause(faultfs.Any, stage, n)
	go func() {
		<-pause.Reached()
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	check.OK(t, from.Rename(t.Context(), "d", to, "d", vfs.If{}, vfs.If{}))
	plans[args[2]].Clear()
	fmt.Println("moved")
}

// TestMoveKilled kills a process at each step of its move between two directories. Every
// file is whole in at least one of them, and nothing of the staging is visible.
func TestMoveKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	tree := vfstest.Tree{"d/x": {Data: "#!", Exec: true}, "d/e/g": {Data: strings.Repeat("long", 50_000)}, "d/l": {Link: "x"}}
	kinds := map[string]int{}
	for _, end := range []string{"source", "target"} {
		for _, stage := range []faultfs.Stage{faultfs.Before, faultfs.Commit, faultfs.After} {
			for n, moved := 1, false; !moved; n++ {
				dir := t.TempDir()
				a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
				check.OK(t, os.Mkdir(a, 0o755))
				check.OK(t, os.Mkdir(b, 0o755))
				var before map[string]string
				onDisk(t, a, func(d vfs.Dir) {
					vfstest.Fill(t, d, tree,
						func(path, target string) error { return os.Symlink(target, filepath.Join(a, path)) },
						func(path string) error { return os.Chmod(filepath.Join(a, path), 0o755) })
					before = nodes(t, d)
				})
				cmd := exec.Command(os.Args[0], "-test.run=^TestMoveKilledChild$")
				cmd.Env = append(os.Environ(), killVar+"="+strings.Join([]string{a, b, end, fmt.Sprint(stage), fmt.Sprint(n)}, "\n"))
				out, err := cmd.CombinedOutput()
				moved = bytes.Contains(out, []byte("moved"))
				if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); !moved && (!is || status.Signal() != syscall.SIGKILL) {
					t.Fatalf("the other process: %v\n%s", err, out)
				}
				var nowA, nowB map[string]string
				onDisk(t, a, func(d vfs.Dir) { nowA = nodes(t, d) })
				onDisk(t, b, func(d vfs.Dir) { nowB = nodes(t, d) })
				switch {
				case len(nowA) == 0 && maps.Equal(nowB, before):
					kinds["moved"]++
				case maps.Equal(nowA, before):
					kinds["not begun to remove"]++
				case maps.Equal(nowB, before):
					kinds["removed in part"]++
				default:
					t.Fatalf("%s, stage %d, step %d: the source has %v, the target %v", end, stage, n, nowA, nowB)
				}
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("it was killed at too few steps: %v", kinds)
	}
	t.Log(kinds)
}

func onDisk(t *testing.T, dir string, do func(vfs.Dir)) {
	t.Helper()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	defer s.Close()
	do(s.Root())
}

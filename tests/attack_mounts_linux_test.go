package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// noMounts is what the other process prints if it cannot mount.
const noMounts = "no mounts:"

// TestAttackMounts runs itself in a new mount namespace, where it can mount
// unnoticed.
func TestAttackMounts(t *testing.T) {
	if dir := os.Getenv(ownMountsVar); dir != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Println(noMounts, err)
			return
		}
		built.once.Do(func() {})
		builtHere = filepath.Join(dir, "capd")
		attackMounts(t)
		return
	}
	cmd := program("")
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, otherVar) }),
		ownMountsVar+"="+filepath.Dir(capd(t)))
	cmd.Args = append(cmd.Args, "-test.run=^TestAttackMounts$", "-test.v")
	cmd.Stderr = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), noMounts) || err != nil && len(out) == 0:
		attacks.add(t, fewest["TestAttackMounts"]) // skipped, and reported as such
		t.Skipf("this machine lets this user mount nothing: %v %s", err, out)
	case err != nil:
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	}
	_, line, _ := strings.Cut(string(out), attackCases)
	tried, err := parseToll(line)
	if err != nil {
		t.Fatalf("in a mount namespace nothing was tried: %v\n%s", err, out)
	}
	attacks.add(t, tried)
}

func (s *attackDir) mount(source, rel string, flags uintptr) {
	s.TB.Helper()
	at := s.path(rel)
	ok(s.TB, unix.Mount(source, at, "", unix.MS_BIND|flags, ""))
	s.TB.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
}

func attackMounts(t *testing.T) {
	h := serve(t)
	named := "get, walk, walk noFollow, openDir, subDir, list"
	for _, a := range []attack{
		{n: 23, name: "a proc mount", blind: true, setup: func(s *attackDir) { s.mkdir("proc"); s.mount("/proc", "proc", unix.MS_REC) }, tries: []attempt{
			{ops: named, path: "proc", want: "crossDevice"},
			{ops: pathwise, path: "proc/self/root/etc/passwd", want: "crossDevice"},
			{ops: pathwise, path: "proc/self/environ", want: "crossDevice"},
			{ops: "list, openDir, walk", path: "proc/self/root", want: "crossDevice"},
			{ops: "glob", path: "**", want: "ok", answer: says("bait\nproc")},
		}},
		{n: 24, name: "a directory bound over another", setup: func(s *attackDir) { s.mkdir("b"); s.mount(s.outside, "b", 0) }, tries: []attempt{
			{ops: named + ", openFile", path: "b", want: "crossDevice"},
			{ops: pathwise, path: "b/f", want: "crossDevice"},
			{ops: "list", path: "b/deep", want: "crossDevice"},
			{ops: "createFile, createDir, put, stage, move to", path: "b/new", want: "crossDevice"},
			{ops: "createFile, createDir, move to", path: "b", want: "exists crossDevice"},
			{ops: "remove, move from", path: "b", want: "crossDevice busy"},
			{ops: "glob", path: "**", want: "ok", answer: says("b\nbait")},
		}},
		{n: 25, name: "a file bound over another", setup: func(s *attackDir) { s.write("f", "f"); s.mount(filepath.Join(s.outside, "f"), "f", 0) }, tries: []attempt{
			{ops: "get, walk, walk noFollow, openFile, put, put noFollow, stage, " + fileUses, path: "f", want: "crossDevice"},
			{ops: "remove, move from", path: "f", want: "crossDevice busy"},
			{ops: "createFile, move to", path: "f", want: "exists crossDevice"},
		}},
		{n: 37, name: "a mount put over a held Dir", hold: "held", setup: func(s *attackDir) { s.mkdir("held"); s.write("held/f", "f"); s.write("held/bait", "b") },
			event: func(s *attackDir) { s.mount(s.outside, "held", 0) }, tries: []attempt{
				{ops: "get, " + pathwise, path: "f", want: "crossDevice"},
				{ops: "list, walk, createFile, put", path: "deep", want: "crossDevice"},
				{ops: "glob", path: "**", want: "crossDevice"},
			}},
	} {
		h.run(t, a)
	}
	t.Run("37 a mount put over a held Dir and taken away", func(t *testing.T) {
		s := h.scene(t, attack{n: 37, setup: func(s *attackDir) { s.mkdir("held"); s.write("held/f", "inside") }})
		held := s.top.SubDir("held")
		ok(t, held.Cap().Settle(context.Background()))
		outside := take(t, s.outside)
		cmd := start(t, "mount", s.outside, s.path("held"))
		ops := strings.Split("readBytes, read, openFile, createFile, put", ", ")
		race(t, ops, "crossDevice exists busy stale", nil, func(ctx context.Context, op string, i int) error {
			path := "f"
			if op == "createFile" || op == "put" {
				path = "new" + strconv.Itoa(i%50)
			}
			return readThen(ctx, t, op, held.Cap(), path, "inside")
		})
		cmd.Process.Kill()
		cmd.Wait()
		unix.Unmount(s.path("held"), unix.MNT_DETACH)
		if d := outside.differs(take(t, s.outside)); d != "" {
			attacks.escape(t)
			t.Errorf("outside, %s", d)
		}
	})
}

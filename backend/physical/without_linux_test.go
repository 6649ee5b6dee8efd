package physical_test

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/vfs"
)

// withoutVar names the filter for this process's system calls. They then behave as under
// an older kernel, on another file system or in a container.
const withoutVar = "CAPD_PHYSICAL_TEST_WITHOUT"

// filters are a system call, an argument that must not be 0 for the call to fail (-1: it
// always fails), and the error.
var filters = map[string]struct {
	call  uint32
	arg   int
	errno uint32
}{
	"openat2":           {unix.SYS_OPENAT2, -1, uint32(unix.ENOSYS)},
	"openat2 by policy": {unix.SYS_OPENAT2, -1, uint32(unix.EPERM)},
	"handles":           {unix.SYS_NAME_TO_HANDLE_AT, -1, uint32(unix.EPERM)},
	"RWF_NOWAIT":        {unix.SYS_PREADV2, -1, uint32(unix.EOPNOTSUPP)},
	"working disk":      {unix.SYS_FSYNC, -1, uint32(unix.EIO)},
	"syncing":           {unix.SYS_FSYNC, -1, uint32(unix.EINVAL)},
	"exchange":          {unix.SYS_RENAMEAT2, 4, uint32(unix.EINVAL)},
}

// restrict filters this process's system calls. See seccomp(2).
func restrict() {
	f, ok := filters[os.Getenv(withoutVar)]
	if !ok {
		return
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	const allow, fail = 0x7fff0000, 0x00050000
	code := []unix.SockFilter{load(0), equal(f.call, 0, 3)} // struct seccomp_data: nr, arch, ip, args
	if f.arg >= 0 {
		code = append(code, load(uint32(16+8*f.arg)), equal(0, 1, 0))
	} else {
		code = append(code, load(0), load(0))
	}
	code = append(code, answer(fail|f.errno), answer(allow))
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const setModeFilter, allThreads = 1, 1
	unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		fmt.Println("no filters:", errno)
		os.Exit(0)
	}
}

// TestWithout runs other tests again without something that the kernel or the file system
// may lack.
func TestWithout(t *testing.T) {
	if os.Getenv(withoutVar) != "" {
		return
	}
	t.Parallel()
	for _, c := range []struct{ without, tests string }{
		{"openat2", "TestFallsBack"},
		{"openat2 by policy", "TestFallsBack"},
		{"handles", "TestMadeAgain/openat2|TestHeldDirectory/.*/openat2|TestConformance/openat2/Identity"},
		{"RWF_NOWAIT", "TestKeptFile$|TestTryingToRead|TestConformance/openat2/(Read|Identity)"},
		{"working disk", "TestFailingDisk"},
		{"syncing", "TestFailingDisk"},
		{"exchange", "TestConformance/openat2/(Replace|Rename|Remove|Condition|Commit)|TestReplaceKeeps/openat2|TestReadersOutside/openat2|TestPowerCut/openat2"},
	} {
		t.Run(c.without, func(t *testing.T) {
			t.Parallel()
			cmd := program("")
			cmd.Args = append(cmd.Args, "-test.v", "-test.run="+c.tests)
			cmd.Env = append(slices.DeleteFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, otherVar) }), withoutVar+"="+c.without)
			cmd.Stderr = nil
			out, err := cmd.CombinedOutput()
			switch {
			case strings.Contains(string(out), "no filters:"):
				untried(t, "this process may not filter its system calls: %s", out)
			case err != nil || !strings.Contains(string(out), "--- PASS"):
				t.Errorf("without %s: %v\n%s", c.without, err, out)
			}
		})
	}
}

// TestFailingDisk: a failed sync is reported, except for directories on a file system
// that cannot sync them.
func TestFailingDisk(t *testing.T) {
	without := os.Getenv(withoutVar)
	if without != "working disk" && without != "syncing" {
		return
	}
	both(t, func(t *testing.T, w served) {
		directory, file := vfs.Internal, vfs.Internal
		if without == "syncing" {
			directory, file = "", vfs.Invalid
		}
		for _, name := range []string{"new", "old", "in/old"} {
			w.mkdir(path.Dir(name))
			w.write(name, "old")
		}
		_, err := w.root.Mkdir(w.ctx, "d")
		w.is("Mkdir", err, directory)
		_, err = w.root.Create(w.ctx, "f")
		w.is("Create", err, directory)
		w.is("Symlink", vfs.Symlink(w.ctx, w.root, "l", "f"), directory)
		w.is("Remove", w.root.Remove(w.ctx, "new", vfs.If{}), directory)
		w.is("Rename", w.root.Rename(w.ctx, "old", w.root, "moved", vfs.If{}, vfs.If{}), directory)
		w.is("Sync", w.file("f").Sync(w.ctx), file)
		w.is("Replace", w.put(w.root, "g", "new", vfs.If{}), file)
		if _, err := os.Lstat(w.host("g")); err == nil {
			t.Error("a content that could not be synced is in place")
		}
		w.write("source", "source")
		w.is("Rename over a version", w.root.Rename(w.ctx, "source", w.sub("in"), "old", vfs.If{}, vfs.If{Is: version("old")}), directory)
		if w.kernel() && without == "working disk" { // it is undone, since the target's name may not last
			w.has(w.host("source"), "source")
			w.has(w.host("in/old"), "old")
		}
	})
}

// TestFallsBack: a host whose kernel does not confine is told so.
func TestFallsBack(t *testing.T) {
	if !strings.HasPrefix(os.Getenv(withoutVar), "openat2") {
		return
	}
	w := serve(t, physical.Options{})
	if c := w.store.Confinement(); c != "best-effort" {
		t.Errorf("Confinement = %q", c)
	}
	w.write("f", "inside")
	if got, err := w.read(w.file("f")); err != nil || got != "inside" {
		t.Errorf("it reads %q, %v", got, err)
	}
}

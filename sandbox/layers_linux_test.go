package sandbox

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"capd/vfs"
)

// TestFilter runs the filter as the kernel does.
func TestFilter(t *testing.T) {
	const arch, otherArch = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
	program, err := bpf.NewVM(filter(arch))
	if err != nil {
		t.Fatal(err)
	}
	errno := func(e unix.Errno) int { return unix.SECCOMP_RET_ERRNO | int(e) }
	tests := []struct {
		name string
		arch uint32
		nr   uint32
		args [2]uint64
		want int
	}{
		{"read", arch, unix.SYS_READ, [2]uint64{}, unix.SECCOMP_RET_ALLOW},
		{"another machine's read", otherArch, unix.SYS_READ, [2]uint64{}, errno(unix.ENOSYS)},
		{"x32 read", arch, x32 | unix.SYS_READ, [2]uint64{}, errno(unix.ENOSYS)},
		{"unshare", arch, unix.SYS_UNSHARE, [2]uint64{}, errno(unix.EPERM)},
		{"x32 unshare", arch, x32 | unix.SYS_UNSHARE, [2]uint64{}, errno(unix.ENOSYS)},
		{"fork", arch, unix.SYS_CLONE, [2]uint64{uint64(unix.SIGCHLD)}, unix.SECCOMP_RET_ALLOW},
		{"thread", arch, unix.SYS_CLONE, [2]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SETTLS}, unix.SECCOMP_RET_ALLOW},
		{"clone in a user namespace", arch, unix.SYS_CLONE, [2]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, errno(unix.EPERM)},
		{"clone3", arch, unix.SYS_CLONE3, [2]uint64{}, errno(unix.ENOSYS)},
		{"TIOCGWINSZ", arch, unix.SYS_IOCTL, [2]uint64{0, unix.TIOCGWINSZ}, unix.SECCOMP_RET_ALLOW},
		{"TIOCSTI", arch, unix.SYS_IOCTL, [2]uint64{0, unix.TIOCSTI}, errno(unix.EPERM)},
		{"TIOCSTI with a high bit", arch, unix.SYS_IOCTL, [2]uint64{0, 1<<40 | unix.TIOCSTI}, errno(unix.EPERM)},
		{"TIOCLINUX", arch, unix.SYS_IOCTL, [2]uint64{0, unix.TIOCLINUX}, errno(unix.EPERM)},
		{"TCP", arch, unix.SYS_SOCKET, [2]uint64{unix.AF_INET, unix.SOCK_STREAM}, unix.SECCOMP_RET_ALLOW},
		{"unix pair", arch, unix.SYS_SOCKETPAIR, [2]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, unix.SECCOMP_RET_ALLOW},
		{"vsock", arch, unix.SYS_SOCKET, [2]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, errno(unix.EAFNOSUPPORT)},
		{"packet", arch, unix.SYS_SOCKET, [2]uint64{unix.AF_PACKET, unix.SOCK_RAW}, errno(unix.EAFNOSUPPORT)},
	}
	for _, test := range tests {
		// The VM reads words in network order, the kernel in the machine's.
		data := binary.BigEndian.AppendUint32(nil, test.nr)
		data = binary.BigEndian.AppendUint32(data, test.arch)
		data = append(data, make([]byte, 8)...)
		for _, arg := range test.args {
			data = binary.BigEndian.AppendUint32(data, uint32(arg))
			data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
		}
		if got, err := program.Run(data); err != nil || uint32(got) != uint32(test.want) {
			t.Errorf("%s: %x, %v; want %x", test.name, got, err, test.want)
		}
	}
}

func TestSpare(t *testing.T) {
	tests := []struct {
		name, idMap string
		n           uint32
		want        int
		ok          bool
	}{
		{"everybody", "         0          0 4294967295\n", 0, 1<<31 - 1, true},
		{"the next", "         0          0 4294967295\n", 1, 1<<31 - 2, true},
		{"around", "         0          0 4294967295\n", 1 << 16, 1<<31 - 1, true},
		{"a container", "0 100000 65536\n", 0, 65535, true},
		{"a container's others", "0 1000 1\n1 100000 65536\n", 5, 65531, true},
		{"never one of the first", "0 100000 1500\n", 499, 1000, true},
		{"root alone", "0 1000 1\n", 0, 0, false},
		{"nobody", "", 0, 0, false},
		{"nonsense", "a b c\n0 0\n", 0, 0, false},
	}
	for _, test := range tests {
		got, ok := spare(strings.NewReader(test.idMap), test.n)
		if got != test.want || ok != test.ok {
			t.Errorf("%s: %d, %v", test.name, got, ok)
		}
	}
}

// TestReadOnlyMounts: what leads to a read-only path is pinned, and nothing writable is
// put over a read-only path.
func TestReadOnlyMounts(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a-b"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		readOnly []string
		want     string
	}{
		{nil, ""},
		{[]string{"a"}, "ro a"},
		{[]string{"a/b/c"}, "rw a, rw a/b, ro a/b/c"},
		{[]string{"a/b/c", "a", "a-b"}, "ro a, ro a-b"},
		{[]string{"a/b", "a/b/c"}, "rw a, ro a/b"},
	}
	for _, test := range tests {
		var m mounts
		if err := m.tree(dir, test.readOnly); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := slices.Index(m, TreePath) + 1; i < len(m); i += 3 {
			kind := map[string]string{"--bind": "rw ", "--ro-bind": "ro "}[m[i]]
			if m[i+1] != filepath.Join(dir, strings.TrimPrefix(m[i+2], TreePath)) {
				t.Errorf("%s is shown at %s", m[i+1], m[i+2])
			}
			got = append(got, kind+strings.TrimPrefix(m[i+2], TreePath+"/"))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%q: %s, want %s", test.readOnly, text, test.want)
		}
	}
}

// TestArgumentsFile: bubblewrap reads each argument unchanged, or none of them.
func TestArgumentsFile(t *testing.T) {
	m := mounts{"--bind", "/a b\n", "", "é"}
	f, err := m.file()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "--bind\x00/a b\n\x00\x00é\x00" {
		t.Errorf("%q, %v", text, err)
	}
	for code, m := range map[vfs.Code]mounts{vfs.Invalid: {"--dir", "/a\x00--bind"}, vfs.Limit: make(mounts, maxMounts+1)} {
		if _, err := m.file(); vfs.CodeOf(err) != code {
			t.Errorf("%v; want %s", err, code)
		}
	}
}

// TestRemove removes entries that are too deep for a path, without permissions, many or
// linked.
func TestRemove(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for i := range 1100 { // more than are read at once
		must(os.WriteFile(filepath.Join(dir, "tmp", strings.Repeat("x", 1+i%200)+string(rune('a'+i/200))), nil, 0o600))
	}
	must(os.Symlink(filepath.Dir(outside), filepath.Join(dir, "tmp/link")))
	must(unix.Mkfifo(filepath.Join(dir, "tmp/fifo"), 0o600))
	fd, err := unix.Open(filepath.Join(dir, "tmp"), dirFlags, 0)
	must(err)
	for range 550 { // longer than a path
		must(unix.Mkdirat(fd, "moved-1", 0o700))
		next, err := unix.Openat(fd, "moved-1", dirFlags, 0)
		must(err)
		must(unix.Mkdirat(fd, "other", 0o700))
		must(unix.Mkdirat(fd, "other/x", 0o500))
		must(unix.Fchmod(fd, 0))
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := walk(dir, func(int, string, *unix.Stat_t) error { return nil }); os.Getuid() == 0 && !errors.Is(err, vfs.Limit) {
		t.Errorf("walking it: %v", err)
	}
	if err := remove(dir); err != nil {
		t.Errorf("removing it: %v", err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestDiskSeesGrowth: entries count even if they are empty. What was there before does
// not count.
func TestDiskSeesGrowth(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "before"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := newDisk(64<<10, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		if err := d.check(); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "last"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.check(); !errors.Is(err, vfs.Limit) {
		t.Errorf("%v, want limit", err)
	}
}

// TestMissing: the error names what is missing, and says what to do.
func TestMissing(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	missing := func(err error, want string) {
		t.Helper()
		if vfs.CodeOf(err) != vfs.Unsupported || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want unsupported, with %q", err, want)
		}
	}
	missing(Available(), "apt install bubblewrap")
	_, err := Run(t.Context(), Command{Args: []string{"true"}, Tree: bin, Scratch: bin})
	missing(err, "apt install bubblewrap")

	fake := "#!/bin/sh\n[ $# = 1 ] && echo bubblewrap 0.4.1 && exit\necho 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "bwrap"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	missing(Available(), "bubblewrap 0.4.1 cannot make a sandbox here (bwrap: Unknown option --disable-userns)")

	missing(Confinement{}.enough(), "Landlock")
}

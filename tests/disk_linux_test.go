package tests

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Files that a program of the host can put into a directory.

func hardlink(s *attackDir) {
	other := filepath.Join(s.base, "elsewhere")
	os.Remove(other)
	ok(s.TB, os.WriteFile(other, []byte("two names"), 0o644))
	ok(s.TB, os.Link(other, s.path("f")))
}

func fifo(s *attackDir) { ok(s.TB, unix.Mkfifo(s.path("p"), 0o666)) }

func zero(s *attackDir) { ok(s.TB, unix.Mknod(s.path("z"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) }

func socket(s *attackDir) {
	// The path may be too long for a socket's address.
	at, err := os.MkdirTemp("", "s")
	ok(s.TB, err)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(at, "s"), Net: "unix"})
	ok(s.TB, err)
	l.SetUnlinkOnClose(false)
	s.TB.Cleanup(func() { l.Close(); os.RemoveAll(at) })
	ok(s.TB, os.Rename(filepath.Join(at, "s"), s.path("s")))
}

// lease holds a write lease on f until the test ends. It never gives it up.
func lease(s *attackDir) {
	s.write("f", "leased")
	f, err := os.OpenFile(s.path("f"), os.O_RDWR, 0)
	ok(s.TB, err)
	s.TB.Cleanup(func() { f.Close() })
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	ok(s.TB, err)
}

func canMakeDevices(t *testing.T) bool {
	return unix.Mknod(filepath.Join(t.TempDir(), "z"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil
}

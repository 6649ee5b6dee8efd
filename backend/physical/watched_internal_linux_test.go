package physical

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Package os watches a nonblocking descriptor with epoll_ctl(2), which asks a FUSE file system while it occupies a
// processor of Go. A few that hang would stop the whole process. So none is passed to it.
func TestNothingIsWatched(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Confinement() != "kernel" {
		t.Skip("this kernel has no openat2")
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := s.enter(place{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.leave(at)
	d := at.(*kernelDir)
	for name, open := range map[string]func() (*os.File, error){
		"open":     func() (*os.File, error) { f, _, err := d.open("f", os.O_RDONLY); return f, err },
		"openSole": func() (*os.File, error) { f, _, err := d.openSole("f", os.O_WRONLY); return f, err },
		"create":   func() (*os.File, error) { return d.create("new", 0o600) },
		"self":     d.self,
	} {
		f, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer f.Close()
		c, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = c.Control(func(fd uintptr) {
			if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("%s hands on a descriptor that does not block (%v)", name, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

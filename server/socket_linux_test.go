package server

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A socket is private from the moment it exists. If another user reached the operator's socket even for a moment, that
// user would control the host.
func TestSocketIsNeverOpen(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	l, err := bind(path)
	check.OK(t, err)
	defer l.Close()
	fi, err := os.Stat(path)
	check.OK(t, err)
	if got, want := fi.Mode().Perm(), os.FileMode(0o600); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// A host removes a socket that another has left, and nothing else.
func TestSocketRemovesNothing(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a file":      func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		dir := t.TempDir()
		st := state.Dir(filepath.Join(t.TempDir(), "state"))
		path := filepath.Join(dir, "guest.sock")
		check.OK(t, make(path))
		_, err := Socket{Mode: 0o666, Dir: dir}.open(st)
		if !errors.Is(err, vfs.Exists) {
			t.Fatalf("%v: %v, want %v", name, err, vfs.Exists)
		}
		_, err = listenUnix(path)
		if !errors.Is(err, vfs.Exists) {
			t.Fatalf("%v: %v, want %v", name, err, vfs.Exists)
		}
		_, err = os.Lstat(path)
		if err != nil {
			t.Fatalf("%v: %v", name, err)
		}
	}
	left := filepath.Join(t.TempDir(), "s")
	check.OK(t, syscall.Mknod(left, syscall.S_IFSOCK|0o600, 0))
	l, err := listenUnix(left)
	check.OK(t, err)
	l.Close()
}

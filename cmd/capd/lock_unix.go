//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile takes f for this process until it is closed (flock(2)).
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// private reports whether nobody else may change what is in a directory.
func private(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return fi.Mode().Perm()&0o022 == 0 && ok && int(st.Uid) == os.Geteuid()
}

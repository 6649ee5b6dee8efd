//go:build unix

package state

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// LockFile takes f for this process until f is closed (flock(2)). It fails at once when another open file
// has the lock.
func LockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// Private reports whether fi belongs to this user and no other user may change what is in it.
func Private(fi os.FileInfo) bool { return mine(fi) && fi.Mode().Perm()&0o022 == 0 }

// secret reports whether only this user can access a file.
func secret(fi os.FileInfo) bool { return mine(fi) && fi.Mode().Perm()&0o077 == 0 }

func mine(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

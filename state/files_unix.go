//go:build unix

package state

import (
	"os"
	"syscall"
)

// Private reports whether fi belongs to this user and no other user may change what is in it.
func Private(fi os.FileInfo) bool { return mine(fi) && fi.Mode().Perm()&0o022 == 0 }

// Secret reports whether only this user can access a file.
func Secret(fi os.FileInfo) bool { return mine(fi) && fi.Mode().Perm()&0o077 == 0 }

func mine(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

//go:build unix

package main

import (
	"os"
	"syscall"
)

// secret reports whether only this user can reach what is in a file.
func secret(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return fi.Mode().Perm()&0o077 == 0 && ok && int(st.Uid) == os.Geteuid()
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

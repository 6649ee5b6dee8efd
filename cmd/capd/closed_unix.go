//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// wasClosed reports whether f, one of the standard files, was not open when the
// program started. The Go runtime opens /dev/null in place of a missing one, for
// reading and writing and without other flags. Nobody else opens /dev/null like
// that. A shell's < and > open it only for one of the two. Programs that start
// others add O_CLOEXEC, which stays among the flags of the open file.
func wasClosed(f *os.File) bool {
	fi, err := f.Stat()
	if err != nil {
		return true
	}
	null, err := os.Stat(os.DevNull)
	if err != nil || !os.SameFile(fi, null) {
		return false
	}
	const matter = unix.O_ACCMODE | unix.O_CLOEXEC | unix.O_APPEND | unix.O_NONBLOCK
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	flags := 0
	err = raw.Control(func(fd uintptr) { flags, _ = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	return err == nil && flags&matter == unix.O_RDWR
}

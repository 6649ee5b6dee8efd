//go:build unix

package server

import (
	"os"
	"os/user"
	"strconv"
	"syscall"

	"capd/vfs"
)

// groupID returns the id of a group, which is given by name or as a number.
func groupID(name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, vfs.Errorf(vfs.NotFound, "there is no group %s on this machine", vfs.Printable(name))
	}
	return strconv.Atoi(g.Gid)
}

// ofGroup reports whether a file belongs to a group; -1 means this user's own.
func ofGroup(fi os.FileInfo, gid int) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if gid < 0 {
		gid = os.Getegid()
	}
	return ok && int(st.Gid) == gid
}

// protect keeps others from a socket that is not bound yet. Where a system cannot do that it does nothing.
func protect(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }

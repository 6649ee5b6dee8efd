//go:build unix

package client

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ownerOf returns the name of the user who keeps this user from opening path: the owner
// of the socket, or of the directory above it that lets nobody through. It returns ""
// if it cannot tell.
func ownerOf(path string) string {
	for {
		fi, err := os.Stat(path)
		if err == nil {
			st, ok := fi.Sys().(*syscall.Stat_t)
			if !ok {
				return ""
			}
			return userName(st.Uid)
		}
		if !errors.Is(err, fs.ErrPermission) || path == filepath.Dir(path) {
			return ""
		}
		path = filepath.Dir(path)
	}
}

// thisUser returns the name of the user of this process.
func thisUser() string { return userName(uint32(os.Geteuid())) }

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "number " + id
}

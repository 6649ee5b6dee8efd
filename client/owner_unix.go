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

// ownerOf names the user whose socket this user may not open: the owner of what is at
// path, or else of the directory on the way to it that lets nobody through. "" where
// that cannot be told.
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

// thisUser names the user that this process runs as.
func thisUser() string { return userName(uint32(os.Geteuid())) }

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "number " + id
}

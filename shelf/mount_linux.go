package shelf

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountOf returns the number of the mount that dir is on, or 0 where the kernel does not tell.
func mountOf(dir *os.File) uint64 {
	var stx unix.Statx_t
	err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx)
	if err != nil || stx.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return stx.Mnt_id
}

// namesOf returns how many names a file has.
func namesOf(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

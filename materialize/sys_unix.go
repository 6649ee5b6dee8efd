//go:build unix

package materialize

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNeverWaits makes an open return at once on a FIFO or a leased file.
const openNeverWaits = syscall.O_NONBLOCK | syscall.O_NOCTTY

// lockedFilesStay is false: an open file can be removed here.
const lockedFilesStay = false

// tryLock locks f until it is closed or the process ends. It reports false when another
// process holds the lock. See flock(2).
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}

// own reports whether a file belongs to this process's user.
func own(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}

// attrOf returns the attributes of info.
func attrOf(info os.FileInfo) attr {
	a := attr{mode: info.Mode(), size: info.Size(), mtime: info.ModTime().UnixNano(), nlink: 1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.dev, a.ino, a.nlink = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		a.allocated = st.Blocks * 512
		a.ctime = ctimeOf(st)
	}
	return a
}

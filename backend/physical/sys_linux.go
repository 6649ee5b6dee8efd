package physical

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (a *attr) fromSystem(sys any) {
	if st, ok := sys.(*syscall.Stat_t); ok {
		a.dev, a.ino, a.nlink = uint64(st.Dev), st.Ino, uint64(st.Nlink)
		a.uid, a.gid = st.Uid, st.Gid
		a.ctime = st.Ctim.Nano()
		a.fi = nil
	}
}

func identOfFile(f *os.File) (ident, error) {
	stx, err := statx(int(f.Fd()), "", 0)
	if err != nil {
		return ident{}, err
	}
	return identOf(int(f.Fd()), &stx), nil
}

// cloneFile clones src into the file that fd is open on; see ioctl_ficlone(2).
func cloneFile(fd uintptr, src *os.File) error {
	return uninterrupted(func() error { return unix.IoctlFileClone(int(fd), int(src.Fd())) })
}

// keepAttributes copies the user's extended attributes and the access control list from
// from to to, as far as the file system has them and allows it. It leaves out
// security.* and trusted.*, which the host set for the old content.
func keepAttributes(to, from *os.File) {
	src, dst := int(from.Fd()), int(to.Fd())
	size, err := unix.Flistxattr(src, nil)
	if err != nil || size == 0 {
		return
	}
	names := make([]byte, size)
	if size, err = unix.Flistxattr(src, names); err != nil {
		return
	}
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") && name != "system.posix_acl_access" {
			continue
		}
		n, err := unix.Fgetxattr(src, name, nil)
		if err != nil {
			continue
		}
		value := make([]byte, n)
		if n, err = unix.Fgetxattr(src, name, value); err == nil {
			unix.Fsetxattr(dst, name, value[:n], 0)
		}
	}
}

// hasDefaultACL reports whether what is made in a directory takes over an access control
// list from it; see acl(5).
func hasDefaultACL(dir *os.File) bool {
	n, err := unix.Fgetxattr(int(dir.Fd()), "system.posix_acl_default", nil)
	return err == nil && n > 0
}

// setModified sets the time of modification of f; see utimensat(2).
func setModified(f *os.File, t time.Time) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(t.UnixNano())}
	return unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
}

// syncsWhole reports whether syncfs(2) on the file system of dir writes to disk what fsync(2)
// would, and says what could not be written, as it does since Linux 5.8. A file system in user
// space is not told of it.
func syncsWhole(dir *os.Root) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 8 {
		return false
	}
	f, err := dir.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	var fs unix.Statfs_t
	if uninterrupted(func() error { return unix.Fstatfs(int(f.Fd()), &fs) }) != nil {
		return false
	}
	switch int64(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// syncWhole writes the file system of f to disk, and answers what could not be written since f
// was opened.
func syncWhole(f *os.File) error {
	return uninterrupted(func() error { return unix.Syncfs(int(f.Fd())) })
}

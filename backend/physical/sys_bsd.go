//go:build unix && !linux

package physical

import (
	"errors"
	"os"
	"syscall"
	"time"
)

func (a *attr) fromSystem(sys any) {
	if st, ok := sys.(*syscall.Stat_t); ok {
		a.dev, a.ino, a.nlink = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		a.uid, a.gid = st.Uid, st.Gid
		a.ctime = ctimeOf(st)
		a.fi = nil
	}
}

// identOfFile uses device, number and, where it is known, birth. APFS never reuses a
// number. Where a file system does, a directory made again at the same place may pass
// for the old one.
func identOfFile(f *os.File) (ident, error) {
	fi, err := f.Stat()
	if err != nil {
		return ident{}, err
	}
	a := attrOfInfo(fi)
	id := ident{dev: a.dev, ino: a.ino}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id.btime = btimeOf(st)
	}
	return id, nil
}

func keepAttributes(to, from *os.File) {}

func hasDefaultACL(*os.File) bool { return false }

// cloneFile is not supported here.
func cloneFile(uintptr, *os.File) error { return errors.ErrUnsupported }

// syncsWhole is false: there is no syncfs(2) here.
func syncsWhole(*os.Root) bool { return false }
func syncWhole(*os.File) error { return errors.ErrUnsupported }

// setModified sets the time of modification of f, and that of the last access to now; see
// futimes(2).
func setModified(f *os.File, t time.Time) error {
	return syscall.Futimes(int(f.Fd()), []syscall.Timeval{syscall.NsecToTimeval(time.Now().UnixNano()), syscall.NsecToTimeval(t.UnixNano())})
}

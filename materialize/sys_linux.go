package materialize

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func ctimeOf(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// mountOf identifies the mount of f: 0 on a kernel before Linux 5.8, which does not
// tell. See statx(2).
func mountOf(f *os.File) (uint64, error) {
	var stx unix.Statx_t
	for {
		err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &stx)
		if err != unix.EINTR {
			return stx.Mnt_id, err
		}
	}
}

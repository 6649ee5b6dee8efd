//go:build unix

package physical

import (
	"os"
	"syscall"
)

// descriptorLimit is how many descriptors the process may have open.
func descriptorLimit() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(uint64(r.Cur), 1<<20))
}

// own reports whether a belongs to this process's user.
func own(a attr) bool { return int(a.uid) == os.Geteuid() }

// keepOwner gives f the owner and the group of a, as far as this process may.
func keepOwner(f *os.File, a attr) {
	if f.Chown(int(a.uid), int(a.gid)) != nil {
		f.Chown(-1, int(a.gid))
	}
}

// private reports whether only its owner may enter a.
func private(a attr) bool { return a.perm == 0o700 }

func keepGroup(f *os.File, a attr) { f.Chown(-1, int(a.gid)) }

// openToSync is how to open a file so that it can be synced.
const openToSync = os.O_RDONLY

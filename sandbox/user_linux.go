package sandbox

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// user is the user that runs the program.
type user struct {
	uid, gid int  // as the program sees it
	switched bool // Init switches to that user; otherwise a user namespace maps the caller to it
}

// inNamespace is how the caller appears in a user namespace.
var inNamespace = user{uid: 1000, gid: 1000}

var runs atomic.Uint32

// chooseUser returns the caller in a user namespace, or for root a user of the host who
// owns nothing. It chooses another user for every run, as far as there are any, so that
// the kernel counts the processes of one run alone.
func chooseUser() user {
	if os.Geteuid() != 0 {
		return inNamespace
	}
	n := uint32(os.Getpid()) + runs.Add(1)<<8
	uid, okUID := spareID("/proc/self/uid_map", n)
	gid, okGID := spareID("/proc/self/gid_map", n)
	if !okUID || !okGID {
		return inNamespace
	}
	return user{uid: uid, gid: gid, switched: true}
}

// spareID applies spare to a map in /proc.
func spareID(name string, n uint32) (int, bool) {
	f, err := os.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	return spare(f, n)
}

// spare returns an id that idMap maps: of the 65536 highest below 1<<31 the one chosen
// by n. It reports false when few are mapped. See user_namespaces(7) for the format.
func spare(idMap io.Reader, n uint32) (int, bool) {
	const few, span, end = 1000, 1 << 16, 1 << 31
	var best, count uint64
	for lines := bufio.NewScanner(idMap); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 32)
		length, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 != nil || err2 != nil || first >= end {
			continue
		}
		if after := min(first+length, end); length > few && after > best {
			best, count = after, min(after-first-few, span)
		}
	}
	if best == 0 || count == 0 {
		return 0, false
	}
	return int(best - 1 - uint64(n)%count), true
}

// own makes u the owner of dir and everything below it. Nobody else may use dir.
func (u user) own(dir string) error {
	if !u.switched {
		return nil
	}
	if err := os.Lchown(dir, u.uid, u.gid); err != nil {
		return err
	}
	return walk(dir, func(at int, name string, st *unix.Stat_t) error {
		if int(st.Uid) == u.uid && int(st.Gid) == u.gid {
			return nil
		}
		return unix.Fchownat(at, name, u.uid, u.gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

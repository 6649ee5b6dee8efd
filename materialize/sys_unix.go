//go:build unix

package materialize

import (
	"os"
	"syscall"
)

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

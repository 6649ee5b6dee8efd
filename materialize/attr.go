package materialize

import (
	"os"
	"time"
)

// attr is what tells without reading it whether a file changed. Attrs of one file
// are == unless it did.
type attr struct {
	mode         os.FileMode
	size         int64 // bytes
	allocated    int64 // bytes on disk
	mtime, ctime int64 // nanoseconds since the Unix epoch; ctime is 0 where there is none
	dev, ino     uint64
	nlink        uint64
}

// settle is how long after a change a file's times may still be those of another
// change: the kernel's clock for them ticks every 10 ms at worst. A file system
// that keeps whole seconds alone is known by its times.
const (
	settle       = 20 * time.Millisecond
	settleCoarse = 3 * time.Second
)

// settled reports whether a change after now is sure to show in other times than
// a's.
func (a attr) settled(now time.Time) bool {
	after := settle
	if a.ctime%1e9 == 0 {
		after = settleCoarse
	}
	return a.ctime != 0 && now.UnixNano()-a.ctime > int64(after)
}

// inode says which file an entry is of; ino is 0 where that is not known.
type inode struct{ dev, ino uint64 }

func (a attr) inode() inode { return inode{a.dev, a.ino} }

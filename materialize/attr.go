package materialize

import (
	"os"
	"time"
)

// attr shows whether a file changed, without reading it. Attrs of one file are equal
// (==) unless it changed.
type attr struct {
	mode         os.FileMode
	size         int64 // bytes
	allocated    int64 // bytes on disk
	mtime, ctime int64 // nanoseconds since the Unix epoch; ctime is 0 where there is none
	dev, ino     uint64
	nlink        uint64
}

// settle is how long after a change another change may leave the same times: the
// kernel's clock for them ticks every 10 ms at worst. A file system that stores whole
// seconds is recognised by its times.
const (
	settle       = 20 * time.Millisecond
	settleCoarse = 3 * time.Second
)

// settled reports whether a change after now is sure to change a's times.
func (a attr) settled(now time.Time) bool {
	after := settle
	if a.ctime%1e9 == 0 {
		after = settleCoarse
	}
	return a.ctime != 0 && now.UnixNano()-a.ctime > int64(after)
}

// inode identifies an entry's file. ino is 0 where that is unknown.
type inode struct{ dev, ino uint64 }

func (a attr) inode() inode { return inode{a.dev, a.ino} }

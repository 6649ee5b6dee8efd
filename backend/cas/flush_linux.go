package cas

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushesAll says that flushAll covers every file and directory of the file system, so
// that none has to be flushed by itself.
const flushesAll = true

// flushAll returns when all that was written to the file system of f would survive a
// power cut. It fails when something that was written there since f was opened could
// not be; see syncfs(2).
func flushAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

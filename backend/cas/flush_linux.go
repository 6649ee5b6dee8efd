package cas

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushesAll is true: flushAll covers every file and directory of the file system, so
// none is flushed separately.
const flushesAll = true

// flushAll returns when everything written to f's file system would survive a power
// cut. It fails if something written there since f was opened could not be; see
// syncfs(2).
func flushAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

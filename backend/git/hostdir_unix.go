//go:build unix

package git

import (
	"os"
	"syscall"
)

// withoutWaiting opens a FIFO or a terminal without blocking, so that it can be
// refused.
const withoutWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY

// flush returns when f, which is open for reading, would survive a power cut.
func flush(f *os.File) error { return f.Sync() }

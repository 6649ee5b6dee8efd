//go:build unix

package git

import (
	"os"
	"syscall"
)

// withoutWaiting lets a FIFO or a terminal be opened, so that it can be refused.
const withoutWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY

// flush returns when f, which is open for reading, would survive a power cut.
func flush(f *os.File) error { return f.Sync() }

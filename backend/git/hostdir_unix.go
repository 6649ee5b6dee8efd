//go:build unix

package git

import (
	"os"
	"syscall"
)

// withoutWaiting lets a FIFO or a terminal be opened, so that it can be refused.
const withoutWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY

func flushDirectory(f *os.File) error { return f.Sync() }

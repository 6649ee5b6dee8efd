//go:build unix

package state

import "golang.org/x/sys/unix"

// makeFIFO makes a file on which a careless reader would wait for ever.
var makeFIFO = func(path string) error { return unix.Mkfifo(path, 0o600) }

//go:build unix

package state

import "golang.org/x/sys/unix"

// makeFIFO makes what nobody must open and wait at.
var makeFIFO = func(path string) error { return unix.Mkfifo(path, 0o600) }

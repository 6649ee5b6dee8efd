//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes f for this process until it is closed (flock(2)).
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

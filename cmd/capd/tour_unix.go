//go:build unix

package main

import "golang.org/x/sys/unix"

// makeFIFO makes a trap: a program that opens it waits.
var makeFIFO = func(path string) error { return unix.Mkfifo(path, 0o600) }

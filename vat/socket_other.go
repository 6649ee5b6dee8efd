//go:build !linux && !darwin

package vat

import "net"

// A socket reads and writes without waiting. There is none on this system: every read and write may wait.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) write([][]byte, bool) (n int, full bool, err error)    { panic("vat: no socket") }
func (*socket) read(func() [][]byte, func(), bool) (n int, err error) { panic("vat: no socket") }

//go:build unix

package vat

import "syscall"

// tryWrite writes as much of b as the socket takes without waiting.
func tryWrite(raw syscall.RawConn, b []byte) (n int, err error) {
	rawErr := raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			var w int
			w, err = syscall.Write(int(fd), b[n:])
			if err == syscall.EINTR {
				continue
			}
			if w > 0 {
				n += w
			}
			if err != nil {
				break
			}
		}
		return true
	})
	if err == syscall.EAGAIN {
		err = nil
	}
	if err == nil {
		err = rawErr
	}
	return n, err
}

const canTryWrite = true

//go:build linux || darwin

package vat

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const canTryWrite = true

// tryWrite writes as much of parts as the socket takes without waiting, and reports whether it is full. With wait it
// waits until it takes something.
func tryWrite(raw syscall.RawConn, parts [][]byte, wait bool) (n int, full bool, err error) {
	rawErr := raw.Write(func(fd uintptr) bool {
		for len(parts) > 0 {
			var w int
			if len(parts) == 1 {
				w, err = unix.Write(int(fd), parts[0])
			} else {
				w, err = unix.Writev(int(fd), parts)
			}
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				full, err = true, nil
				return !wait || n > 0
			case err != nil:
				return true
			}
			for n += w; len(parts) > 0 && w >= len(parts[0]); parts = parts[1:] {
				w -= len(parts[0])
			}
			if w > 0 {
				parts[0] = parts[0][w:]
			}
		}
		return true
	})
	if err == nil {
		err = rawErr
	}
	return n, full, err
}

//go:build linux || darwin

package host

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// glance reports whether the other end of a socket has gone, and whether data from it
// waits to be read.
func glance(raw syscall.RawConn) (gone, spoke bool) {
	if raw == nil {
		return false, false
	}
	err := raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(p[:], 0); err != nil || n == 0 {
			return
		}
		gone = p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
		spoke = p[0].Revents&unix.POLLIN != 0
	})
	return gone || err != nil, spoke
}

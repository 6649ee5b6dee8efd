package host

import (
	"net"
	"syscall"
)

// userOf returns the user who opened the other end (SO_PEERCRED, unix(7)).
func userOf(c *net.UnixConn) (user uint32) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			user = cred.Uid
		}
	})
	return user
}

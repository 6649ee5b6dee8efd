package host

import (
	"net"
	"syscall"
)

// socketBelow returns the innermost connection under nc, as the socket under TLS.
func socketBelow(nc net.Conn) net.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = over.NetConn()
	}
}

func rawOf(nc net.Conn) syscall.RawConn {
	c, ok := socketBelow(nc).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// hangUp closes nc at once and sends nothing more.
func hangUp(nc net.Conn) { socketBelow(nc).Close() }

package host

import (
	"net"
	"net/netip"
)

// An origin is where a connection comes from. It tells crowds of strangers apart. It is
// an IPv4 address, an IPv6 network of 64 bits, as one household has, or, for a Unix
// socket, a user of this machine. Where the system does not tell users apart, all of them
// are one origin.
type origin struct {
	net  netip.Prefix
	user uint32
}

func originOf(nc net.Conn) origin {
	if c, ok := nc.(*net.UnixConn); ok {
		return origin{user: userOf(c)}
	}
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return origin{}
	}
	ip := a.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return origin{}
	}
	return origin{net: p}
}

package host

import (
	"net"
	"net/netip"
)

// An origin is where a connection comes from, as far as it tells one crowd of
// strangers from another: an IPv4 address, an IPv6 network of 64 bits, which is
// what one household has, or a user of this machine, for those that come by a socket.
// Where the system does not tell users apart they are one.
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

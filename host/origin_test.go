package host

import (
	"net"
	"testing"
)

// from is a connection that comes from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

func tcp(ip string) net.Conn { return from{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 7}} }

func TestOrigin(t *testing.T) {
	socket := from{addr: &net.UnixAddr{Name: "@", Net: "unix"}}
	for _, c := range []struct {
		a, b net.Conn
		same bool
	}{
		{tcp("192.0.2.1"), tcp("192.0.2.1"), true},
		{tcp("192.0.2.1"), tcp("::ffff:192.0.2.1"), true},
		{tcp("192.0.2.1"), tcp("192.0.2.2"), false},
		{tcp("2001:db8::1"), tcp("2001:db8::ffff:1"), true},
		{tcp("2001:db8::1"), tcp("2001:db8:0:1::1"), false},
		{tcp("2001:db8::1"), socket, false},
		{socket, socket, true},
		{tcp("::1"), tcp("127.0.0.1"), false},
	} {
		if got := originOf(c.a) == originOf(c.b); got != c.same {
			t.Errorf("%v and %v are of one origin: %v", c.a.RemoteAddr(), c.b.RemoteAddr(), got)
		}
	}
}

func TestMakesRoom(t *testing.T) {
	a, b, c := tcp("192.0.2.1"), tcp("192.0.2.2"), from{addr: &net.UnixAddr{}}
	for _, x := range []struct {
		many []net.Conn
		want int
	}{
		{[]net.Conn{a}, 0},
		{[]net.Conn{a, b, c}, 0}, // a tie
		{[]net.Conn{a, b, b}, 1},
		{[]net.Conn{a, c, b, b, c, c}, 1},
		{[]net.Conn{c, b, a, b, a, a}, 2},
	} {
		if got := makesRoom(x.many, originOf); got != x.want {
			t.Errorf("%d of %d makes room, want %d", got, len(x.many), x.want)
		}
	}
}

package host

import (
	"net"
	"slices"
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

// Of the largest group, a stranger that failed goes first, then one that has sent nothing, then
// one that has sent something. A stranger whose data waits to be read does not go.
func TestCrowd(t *testing.T) {
	a, b, c := tcp("192.0.2.1"), tcp("192.0.2.2"), from{addr: &net.UnixAddr{}}
	type one struct {
		nc       net.Conn
		standing standing
		failed   bool
	}
	for _, x := range []struct {
		many []one
		want int // -1: nobody
	}{
		{[]one{{nc: a}}, 0},
		{[]one{{nc: a}, {nc: b}, {nc: c}}, 0}, // a tie
		{[]one{{nc: a}, {nc: b}, {nc: b}}, 1},
		{[]one{{nc: a}, {nc: c}, {nc: b}, {nc: b}, {nc: c}, {nc: c}}, 1},
		{[]one{{nc: c}, {nc: b}, {nc: a}, {nc: b}, {nc: a}, {nc: a}}, 2},
		{[]one{{nc: a, standing: heard}, {nc: a, standing: speaking}, {nc: a}, {nc: a, standing: heard, failed: true}}, 3},
		{[]one{{nc: a, standing: heard}, {nc: a, standing: speaking}, {nc: a}}, 2},
		{[]one{{nc: a, standing: speaking}, {nc: a, standing: heard}, {nc: a, standing: heard}}, 1},
		{[]one{{nc: a, standing: speaking}, {nc: a, standing: speaking}, {nc: b}}, -1},
		{nil, -1},
	} {
		var crowd crowd
		var all []*stranger
		for _, o := range x.many {
			s := &stranger{from: originOf(o.nc), standing: func() standing { return o.standing }}
			crowd.add(s)
			if o.failed {
				crowd.fail(s)
			}
			all = append(all, s)
		}
		goes := crowd.goes()
		if got := slices.Index(all, goes); got != x.want {
			t.Errorf("%d of %v goes, want %d", got, x.many, x.want)
		}
		for _, s := range all {
			crowd.remove(s)
			crowd.remove(s)
			crowd.fail(s)
		}
		if crowd.len() != 0 || crowd.first() != nil || len(crowd.from) != 0 {
			t.Errorf("somebody of %v is left", x.many)
		}
	}
}

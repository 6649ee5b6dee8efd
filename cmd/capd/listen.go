package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// keepAlive ends within a minute or so a connection whose guest is gone without a
// word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4}

// hostPort is a host and, where it is known, a port.
type hostPort struct {
	host string
	port uint16
}

func (a hostPort) everywhere() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "" || err == nil && ip.IsUnspecified()
}

// tlsAddress is tls:HOST:PORT.
type tlsAddress hostPort

// UnmarshalText reads an argument.
func (a *tlsAddress) UnmarshalText(text []byte) error {
	rest, found := strings.CutPrefix(string(text), "tls:")
	host, port, err := net.SplitHostPort(rest)
	n, nerr := strconv.ParseUint(port, 10, 16)
	if !found || err != nil || nerr != nil {
		return fmt.Errorf("%q is not tls:HOST:PORT, such as tls:localhost:7000, tls:[::1]:7000 or tls::0 (every address, any port)", text)
	}
	*a = tlsAddress{host, uint16(n)}
	return nil
}

// advertised is HOST or HOST:PORT.
type advertised hostPort

// UnmarshalText reads an argument.
func (a *advertised) UnmarshalText(text []byte) error {
	*a = advertised{host: strings.TrimSuffix(strings.TrimPrefix(string(text), "["), "]")}
	if _, err := netip.ParseAddr(a.host); err != nil && strings.Contains(a.host, ":") {
		host, port, err := net.SplitHostPort(string(text))
		n, nerr := strconv.ParseUint(port, 10, 16)
		if err != nil || nerr != nil || n == 0 {
			return fmt.Errorf("%q is neither HOST nor HOST:PORT", text)
		}
		*a = advertised{host, uint16(n)}
	}
	if a.host == "" || hostPort(*a).everywhere() {
		return errors.New("it has to be a name or an address at which guests reach this host")
	}
	return nil
}

// listenTLS opens a. Where guests find it, but for the key, is its own host, or if
// that is every address, what is advertised, or the machine's name.
func listenTLS(ctx context.Context, a hostPort, advertise *advertised) (net.Listener, state.Way, error) {
	w := state.Way{Host: a.host}
	var advertisedPort uint16
	if a.everywhere() {
		if advertise != nil {
			w.Host, advertisedPort = advertise.host, advertise.port
		} else if name, err := os.Hostname(); err == nil {
			w.Host = name
		}
	}
	network := "tcp"
	if ip, err := netip.ParseAddr(a.host); err == nil && ip.Is4() { // 0.0.0.0 would be IPv6 too
		network = "tcp4"
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(ctx, network, net.JoinHostPort(a.host, strconv.Itoa(int(a.port))))
	if err != nil {
		return nil, state.Way{}, vfs.Errorf(vfs.Invalid, "tls:%s cannot be listened at: %v", net.JoinHostPort(a.host, strconv.Itoa(int(a.port))), listenReason(err))
	}
	w.Port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	if advertisedPort != 0 {
		w.Port = advertisedPort
	}
	if _, err := locator.Parse(w.Locator([locator.SecretSize]byte{}).String()); err != nil {
		l.Close()
		return nil, state.Way{}, vfs.Errorf(vfs.Invalid, "no locator can name the host %q; listen at every address, and say with --advertise how guests reach this one", w.Host)
	}
	return l, w, nil
}

// listenReason is what went wrong, without the address that it went wrong with.
func listenReason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if sys, ok := errors.AsType[*os.SyscallError](err); ok {
		err = sys.Err
	}
	return err
}

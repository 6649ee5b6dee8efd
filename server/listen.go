package server

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

	"capd/host"
	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// keepAlive ends a connection within about a minute when its guest has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4}

// hostPort is a host and a port. The port may be 0.
type hostPort struct {
	host string
	port uint16
}

func (a hostPort) everywhere() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "" || err == nil && ip.IsUnspecified()
}

// An Address is where a host listens for guests over TLS: tls:HOST:PORT. An empty HOST means every address of
// the machine, and PORT 0 any free port.
type Address string

// UnmarshalText sets a, and answers what is wrong with the text.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address(text)
	_, err := a.parse()
	return err
}

func (a Address) parse() (hostPort, error) {
	text := string(a)
	rest, found := strings.CutPrefix(text, "tls:")
	host, port, err := net.SplitHostPort(rest)
	n, nerr := strconv.ParseUint(port, 10, 16)
	if !found || err != nil || nerr != nil {
		return hostPort{}, fmt.Errorf("%q is not tls:HOST:PORT, such as tls:localhost:7000, tls:[::1]:7000 or tls::0 (every address, any port)", text)
	}
	return hostPort{host, uint16(n)}, nil
}

// An Advertised is where guests reach a host that listens at every address: HOST or HOST:PORT.
type Advertised string

// UnmarshalText sets a, and answers what is wrong with the text.
func (a *Advertised) UnmarshalText(text []byte) error {
	*a = Advertised(text)
	_, err := a.parse()
	return err
}

func (adv Advertised) parse() (hostPort, error) {
	text := string(adv)
	a := hostPort{host: strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")}
	if _, err := netip.ParseAddr(a.host); err != nil && strings.Contains(a.host, ":") {
		host, port, err := net.SplitHostPort(text)
		n, nerr := strconv.ParseUint(port, 10, 16)
		if err != nil || nerr != nil || n == 0 {
			return hostPort{}, fmt.Errorf("%q is neither HOST nor HOST:PORT", text)
		}
		a = hostPort{host, uint16(n)}
	}
	if a.host == "" || a.everywhere() {
		return hostPort{}, errors.New("it must be a name or an address at which guests reach this host")
	}
	return a, nil
}

// ErrAdvertise is the error when Advertise is set but no address of Listen means every address. Locators of
// other addresses name the address itself.
var ErrAdvertise = vfs.Errorf(vfs.Invalid, "Advertise needs an address in Listen that is every address, such as tls::7000; otherwise locators name the address itself")

// addresses parses Listen and Advertise. advertise is nil if nothing is advertised.
func (s *Server) addresses() (at []hostPort, advertise *hostPort, err error) {
	everywhere := false
	for _, text := range s.Listen {
		a, err := text.parse()
		if err != nil {
			return nil, nil, vfs.Errorf(vfs.Invalid, "%v", err)
		}
		at, everywhere = append(at, a), everywhere || a.everywhere()
	}
	if s.Advertise == "" {
		return at, nil, nil
	}
	a, err := s.Advertise.parse()
	switch {
	case err != nil:
		return nil, nil, vfs.Errorf(vfs.Invalid, "%v", err)
	case !everywhere:
		return nil, nil, ErrAdvertise
	}
	return at, &a, nil
}

// listen opens the listeners for guests and the operator. s must hold the state directory's lock.
func (s *Server) listen(ctx context.Context) (err error) {
	at, advertise, err := s.addresses()
	if err != nil {
		return err
	}
	if s.guests, err = s.Socket.open(s.state); err != nil {
		return err
	}
	if s.control, err = listenUnix(s.state.Control()); err != nil {
		return err
	}
	s.state.ForgetWays() // of a host that was killed
	if len(at) == 0 {
		return nil
	}
	key, err := s.state.Key()
	if err != nil {
		return err
	}
	if s.id, err = host.NewIdentity(key); err != nil {
		return err
	}
	ports, err := loadPorts(ctx, s.db)
	if err != nil {
		return err
	}
	for i, a := range at {
		l, w, err := ports.listen(ctx, i, a, advertise)
		if err != nil {
			return err
		}
		w.Key = s.id.Key
		s.tls, s.ways = append(s.tls, l), append(s.ways, w)
	}
	if err := ports.keep(s.db); err != nil {
		return err
	}
	return s.state.KeepWays(s.ways)
}

// Listeners returns where guests connect: the path of the Unix socket, and each tls:HOST:PORT as locators name it. Before
// the start there are none.
func (s *Server) Listeners() []string {
	if s.phase() < serving {
		return nil
	}
	all := []string{s.guests.path}
	for _, w := range s.ways {
		all = append(all, w.String())
	}
	return all
}

// deafen closes what listen opened, and removes its files.
func (s *Server) deafen() {
	for _, l := range s.tls {
		l.Close()
	}
	if s.tls != nil {
		s.state.ForgetWays()
	}
	if s.control != nil {
		s.control.Close()
		os.Remove(s.state.Control())
	}
	if s.guests != nil {
		s.guests.end()
	}
}

// listenTLS listens at a. The Way that it returns lacks the key. Its host is that of a. If a means every
// address, it is the advertised host or the machine's name.
func listenTLS(ctx context.Context, a hostPort, advertise *hostPort) (net.Listener, state.Way, error) {
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
	if ip, err := netip.ParseAddr(a.host); err == nil && ip.Is4() { // tcp would listen at IPv6 addresses, too, for 0.0.0.0
		network = "tcp4"
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := lc.Listen(ctx, network, net.JoinHostPort(a.host, strconv.Itoa(int(a.port))))
	if err != nil {
		return nil, state.Way{}, vfs.Errorf(vfs.Invalid, "cannot listen at tls:%s: %v", net.JoinHostPort(a.host, strconv.Itoa(int(a.port))), listenReason(err))
	}
	w.Port = l.Addr().(*net.TCPAddr).AddrPort().Port()
	if advertisedPort != 0 {
		w.Port = advertisedPort
	}
	if _, err := locator.Parse(w.Locator([locator.SecretSize]byte{}).String()); err != nil {
		l.Close()
		return nil, state.Way{}, vfs.Errorf(vfs.Invalid, "no locator can name the host %q; listen at every address, and set Advertise to the name by which guests reach this host", w.Host)
	}
	return l, w, nil
}

// listenReason returns what went wrong, without the address.
func listenReason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if sys, ok := errors.AsType[*os.SyscallError](err); ok {
		err = sys.Err
	}
	return err
}

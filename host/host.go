// Package host serves an authority's grants to guests, and its console to the
// operator, over listeners that its caller opened.
package host

import (
	"context"
	"errors"
	"log"
	"net"
	"sync"
	"time"

	"capd/authority"
	"capd/cap/console"
	"capd/cap/wire"
	"capd/locator"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/virtualfs"
)

// Options configures a Server. The zero value is right for a Unix socket.
type Options struct {
	Limits vat.Limits // of each guest's connection
	// Logf tells the host what a guest is not told: the causes of internal
	// errors. Nil is the log package.
	Logf func(format string, args ...any)
	// VirtualFs is what composes the authority's tree, for the operator. It stays
	// its caller's. Nil: nothing can be mounted.
	VirtualFs virtualfs.Host

	handshakeTimeout time.Duration // HandshakeTimeout, but in a test
}

// Server serves one authority. Its methods are safe for concurrent use.
type Server struct {
	host *authority.Host
	o    Options

	mu         sync.Mutex
	conns      map[*vat.Conn]struct{} // the operator's among them
	operators  int                    // how many of these are the operator's
	handshakes crowd                  // TLS handshakes under way
	strangers  crowd                  // of guests that have restored nothing
	strange    *meter.Meter           // of strangers
	lastEnd    time.Time              // when the last connection ends of those whose all was taken back
	left       chan struct{}          // closed when a stranger is none any more; made when somebody waits for that
	told       map[string]bool        // directories of which a guest was told that they hold something withheld
	listeners  map[net.Listener]struct{}
	closed     bool
	wg         sync.WaitGroup
}

// New returns a server of h, which stays its caller's. How many connections there may be, in all and of
// each grant, is said by h's meters; the operator's are not counted. Those that have restored nothing count together in
// a meter of their own. When they are as many as may be, one more ends another of them.
func New(h *authority.Host, o Options) *Server {
	if o.handshakeTimeout == 0 {
		o.handshakeTimeout = HandshakeTimeout
	}
	if o.Logf == nil {
		o.Logf = log.Printf
	}
	meters := h.Meters()
	if all, most := meters.All(), int64(Threads()); all.Limit(meter.Threads) == 0 || all.Limit(meter.Threads) > most {
		all.Set(meter.Limits{meter.Threads: most})
	}
	return &Server{strange: meters.Strangers(), host: h, o: o, conns: map[*vat.Conn]struct{}{}, told: map[string]bool{}, listeners: map[net.Listener]struct{}{}}
}

// ServeGuests answers guests on l, each with a Session, until l or the server is
// closed.
func (s *Server) ServeGuests(l net.Listener) error {
	return s.serve(l, func(nc net.Conn) { s.Guest(nc) })
}

// ServeConsole answers the operator on l until l or the server is closed.
// Whoever reaches l controls the host: l must be the operator's alone. locate
// makes a locator of a secret; when it is nil the operator can grant nothing.
func (s *Server) ServeConsole(l net.Listener, locate func(secret [locator.SecretSize]byte) string) error {
	return s.serve(l, func(nc net.Conn) {
		s.mu.Lock()
		defer s.mu.Unlock()
		served := console.New(s.host, locate, console.Options{Process: s.process, VirtualFs: s.o.VirtualFs})
		if s.add(nc, vat.Limits{}, nil, served, func() { s.operators-- }) != nil {
			s.operators++
		}
	})
}

func (s *Server) serve(l net.Listener, answer func(net.Conn)) error {
	if !s.listen(l) {
		return nil
	}
	defer s.unlisten(l)
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // as when descriptors have run out: it may pass
			s.o.Logf("capd: accept: %v", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		answer(nc)
	}
}

// listen notes a listener, which Close closes. It reports false, and closes it,
// when the server is closed already.
func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.Close()
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
}

// add starts a connection; gone is called, with s.mu held, when it has ended.
// s.mu is held. It returns nil when the server is closed.
func (s *Server) add(nc net.Conn, limits vat.Limits, m *meter.Meter, bootstrap *vat.Cap, gone func()) *vat.Conn {
	if s.closed {
		bootstrap.Release()
		nc.Close()
		return nil
	}
	c := vat.NewConn(nc, vat.Options{Bootstrap: bootstrap, Limits: limits, Meter: m, Encode: s.encode, Logf: s.o.Logf})
	s.conns[c] = struct{}{}
	s.wg.Go(func() {
		<-c.Done()
		s.mu.Lock()
		delete(s.conns, c)
		gone()
		s.mu.Unlock()
	})
	return c
}

// encode tells the host the cause of what its guest sees as internal, and what a guest
// could tell of what is withheld.
func (s *Server) encode(err error) *vat.Exception {
	if told, ok := errors.AsType[*vfs.Told](err); ok {
		s.note(told)
	}
	if _, said := errors.AsType[*vat.Exception](err); said {
		return wire.Encode(err)
	}
	if vfs.CodeOf(err) == vfs.Internal && !errors.Is(err, context.Canceled) {
		cause := err
		if e, ok := errors.AsType[*vfs.Error](err); ok && e.Cause != nil {
			cause = e.Cause
		}
		s.o.Logf("capd: internal: %v", cause)
	}
	return wire.Encode(err)
}

// maxTold is how many directories are noted of which a guest was told something.
const maxTold = 1024

// note logs each directory once, and no more when there were too many.
func (s *Server) note(told *vfs.Told) {
	s.mu.Lock()
	n, known := len(s.told), s.told[told.Path]
	if !known && n < maxTold {
		s.told[told.Path] = true
	}
	s.mu.Unlock()
	switch {
	case known || n > maxTold-1:
	case n == maxTold-1:
		s.o.Logf("capd: %v; what follows of this is not noted", told)
	default:
		s.o.Logf("capd: %v", told)
	}
}

// Conns returns how many connections there are, the operator's among them.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Stats returns what each connection holds now, in no order.
func (s *Server) Stats() []vat.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []vat.Stats
	for c := range s.conns {
		all = append(all, c.Stats())
	}
	return all
}

// Close closes every listener that is served, ends every connection and waits
// until each has let go of what it held.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*vat.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	for l := range s.listeners {
		l.Close()
	}
	s.handshakes.each(func(h *stranger) { h.leave() })
	s.mu.Unlock()
	for _, c := range conns {
		s.wg.Go(func() { c.Close() }) // each may take a moment to say goodbye
	}
	s.wg.Wait()
	return nil
}

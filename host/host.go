// Package host serves an authority's grants to guests, and its console to the operator.
// Its caller opens the listeners.
package host

import (
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"capd/authority"
	"capd/cap/console"
	"capd/cap/virtualfs"
	"capd/cap/wire"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Options configures a Server. The zero value suits a Unix socket.
type Options struct {
	Limits vat.Limits // of each guest's connection
	// Logf logs what guests are not told: the causes of internal errors. Nil means the
	// log package.
	Logf func(format string, args ...any)
	// VirtualFs composes the authority's tree, for the operator. The caller keeps
	// ownership of it. If it is nil, nothing can be mounted.
	VirtualFs virtualfs.Host
	// Approvals and Events are for the operator, too: what waits for an approval, and the record. They may be nil.
	Approvals operator.Approvals
	Events    operator.Events
	// Rules are the rules of the host, for the operator. If it is nil, none can be set.
	Rules operator.Rulebook
	// Hooks are those of the host, for the operator. They may be nil.
	Hooks operator.Hooks

	handshakeTimeout time.Duration // HandshakeTimeout, except in tests
}

// Server serves one authority. Its methods are safe for concurrent use.
type Server struct {
	host *authority.Host
	o    Options

	mu         sync.Mutex
	conns      map[*vat.Conn]struct{} // includes the operator's
	operators  int                    // how many of conns are the operator's
	handshakes crowd                  // TLS handshakes under way
	strangers  crowd                  // guests that have restored nothing
	strange    *meter.Meter           // the strangers' meter
	askers     map[string][]*asking   // the connections that use an invitation, by its id, oldest first
	aside      int                    // how many connections use invitations and have restored nothing
	lastEnd    time.Time              // when the last of the connections ends whose grants were all taken back
	left       chan struct{}          // closed when a stranger leaves the crowd; nil while nobody waits for that
	told       map[string]bool        // directories about which a guest was told that they hold something withheld
	listeners  map[net.Listener]struct{}
	closed     bool
	wg         sync.WaitGroup
}

// New returns a server of h. The caller keeps ownership of h. The meters of h limit how
// many connections there may be, in all and for each grant. The operator's connections
// are not counted. Connections that have restored nothing yet count in a meter of their
// own. When that is full, a new connection ends another of them.
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
	return &Server{strange: meters.Strangers(), host: h, o: o, conns: map[*vat.Conn]struct{}{}, told: map[string]bool{}, askers: map[string][]*asking{}, listeners: map[net.Listener]struct{}{}}
}

// ServeGuests serves guests on l, each with a Session, until l or the server is closed.
func (s *Server) ServeGuests(l net.Listener) error {
	return s.serve(l, func(nc net.Conn) { s.Guest(nc) })
}

// ServeConsole serves the operator on l until l or the server is closed. Whoever reaches
// l controls the host, so only the operator may reach it. locate makes a locator from a
// secret. When it is nil the operator cannot grant anything.
func (s *Server) ServeConsole(l net.Listener, locate func(secret [locator.SecretSize]byte) string) error {
	return s.serve(l, func(nc net.Conn) {
		s.mu.Lock()
		defer s.mu.Unlock()
		served := console.New(s.host, locate, console.Options{Process: s.process, VirtualFs: s.o.VirtualFs, Approvals: s.o.Approvals, Events: s.o.Events, Rules: s.o.Rules, Hooks: s.o.Hooks})
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
		if err != nil { // such as no descriptors left: it may pass
			s.o.Logf("capd: accept: %v", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		answer(nc)
	}
}

// listen remembers l, so that Close closes it. If the server is closed already, listen
// closes l and reports false.
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

// add starts a connection. It calls gone, with s.mu held, when the connection has ended.
// It returns nil when the server is closed. The caller holds s.mu.
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

// encode returns err as the guest sees it. It logs the cause of an internal error, and
// what the error reveals about withheld names.
func (s *Server) encode(err error) *vat.Exception {
	if told, ok := errors.AsType[*membrane.Disclosure](err); ok {
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

// maxTold is the most directories that are remembered and logged by note.
const maxTold = 1024

// note logs each directory once. After maxTold directories it logs no more.
func (s *Server) note(told *membrane.Disclosure) {
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

// Conns returns how many connections there are, including the operator's.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Stats returns what each connection holds now, in no particular order.
func (s *Server) Stats() []vat.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []vat.Stats
	for c := range s.conns {
		all = append(all, c.Stats())
	}
	return all
}

// Close closes every listener that is being served, ends every connection, and waits
// until each has released what it held.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := slices.Collect(maps.Keys(s.conns))
	for l := range s.listeners {
		l.Close()
	}
	s.handshakes.each(func(h *stranger) { h.leave() })
	s.mu.Unlock()
	for _, c := range conns {
		s.wg.Go(func() { c.Close() }) // each may take a moment to send its last messages
	}
	s.wg.Wait()
	return nil
}

package host

import (
	"net"
	"slices"
	"time"

	"capd/cap/session"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

// StrangerIdle is how long a stranger may say nothing, about; whoever holds a
// grant may be silent for ever.
const StrangerIdle = time.Minute

// seat is a guest's connection, as the server counts it: a stranger until it has
// restored something, and then one of those that hold a grant. It is what the
// connection's Session asks for nodes.
type seat struct {
	s     *Server
	conn  *vat.Conn
	from  origin
	holds map[*meter.Meter]*meter.Meter // by the root grant's meter: which the connection counts in
	ended bool
}

// Guest answers one guest on nc, which it takes over. It returns nil, and closes
// nc, when there are too many.
func (s *Server) Guest(nc net.Conn) *vat.Conn {
	t := &seat{s: s, from: originOf(nc), holds: map[*meter.Meter]*meter.Meter{}}
	s.mu.Lock()
	if s.guests >= s.o.MaxConns {
		s.mu.Unlock()
		nc.Close()
		return nil
	}
	conn := s.add(nc, s.o.Limits, s.strange, session.New(t), t.leave)
	if conn == nil {
		s.mu.Unlock()
		return nil
	}
	t.conn = conn
	conn.SetIdleTimeout(StrangerIdle)
	s.guests++
	s.strangers = append(s.strangers, t)
	var leaves *seat
	if len(s.strangers) > MaxStrangers {
		i := makesRoom(s.strangers, func(t *seat) origin { return t.from })
		leaves = s.strangers[i]
		s.strangers = slices.Delete(s.strangers, i, i+1)
	}
	s.mu.Unlock()
	if leaves != nil {
		go leaves.conn.Close() // it may take a moment to say goodbye
	}
	return conn
}

// leave gives up the seat. s.mu is held.
func (t *seat) leave() {
	t.ended = true
	t.s.guests--
	t.known()
	for _, m := range t.holds {
		m.Give(meter.Connections, 1)
	}
}

// known takes the seat from among the strangers. s.mu is held.
func (t *seat) known() {
	t.s.strangers = slices.DeleteFunc(t.s.strangers, func(u *seat) bool { return u == t })
}

// Restore implements session.Grants.
func (t *seat) Restore(secret []byte) (vfs.Node, error) {
	n, m, err := t.s.host.Restore(secret)
	if err != nil {
		return nil, err
	}
	root := m.Grant()
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended || t.holds[root] != nil {
		return n, nil
	}
	if err := vfs.Take(m, meter.Connections, 1); err != nil {
		n.Close()
		return nil, err
	}
	if len(t.holds) == 0 { // a connection counts with the first of its grants
		t.conn.SetMeter(m)
		t.conn.SetIdleTimeout(0)
	}
	t.holds[root] = m
	t.known()
	return n, nil
}

// Share implements session.Grants.
func (t *seat) Share(n vfs.Node) ([]byte, *vfs.Control, error) { return t.s.host.Share(n) }

package host

import (
	"net"
	"slices"

	"capd/cap/session"
	"capd/vat"
	"capd/vfs"
)

// seat is a guest's connection, as the server counts it: a stranger until it has
// restored something, and then one of those that hold a grant. It is what the
// connection's Session asks for nodes.
type seat struct {
	s     *Server
	conn  *vat.Conn
	roots map[string]bool // the root grants it holds
	ended bool
}

// Guest answers one guest on nc, which it takes over. It returns nil, and closes
// nc, when there are too many.
func (s *Server) Guest(nc net.Conn) *vat.Conn {
	t := &seat{s: s, roots: map[string]bool{}}
	s.mu.Lock()
	if s.guests >= s.o.MaxConns {
		s.mu.Unlock()
		nc.Close()
		return nil
	}
	conn := s.add(nc, s.o.Limits, session.New(t), t.leave)
	if conn == nil {
		s.mu.Unlock()
		return nil
	}
	t.conn = conn
	s.guests++
	s.strangers = append(s.strangers, t)
	var oldest *seat
	if len(s.strangers) > MaxStrangers {
		oldest, s.strangers = s.strangers[0], s.strangers[1:]
	}
	s.mu.Unlock()
	if oldest != nil {
		go oldest.conn.Close() // it may take a moment to say goodbye
	}
	return conn
}

// leave gives up the seat. s.mu is held.
func (t *seat) leave() {
	t.ended = true
	t.s.guests--
	t.known()
	for root := range t.roots {
		if t.s.grants[root]--; t.s.grants[root] == 0 {
			delete(t.s.grants, root)
		}
	}
}

// known takes the seat from among the strangers. s.mu is held.
func (t *seat) known() {
	t.s.strangers = slices.DeleteFunc(t.s.strangers, func(u *seat) bool { return u == t })
}

// Restore implements session.Grants.
func (t *seat) Restore(secret []byte) (vfs.Node, error) {
	n, err := t.s.host.Restore(secret)
	if err != nil {
		return nil, err
	}
	root := t.s.host.RootOf(n)
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended || t.roots[root] {
		return n, nil
	}
	if t.s.grants[root] >= MaxConnsPerGrant {
		n.Close()
		return nil, vfs.Errorf(vfs.Limit, "%d connections hold this grant already; close some", MaxConnsPerGrant)
	}
	t.s.grants[root]++
	t.roots[root] = true
	t.known()
	return n, nil
}

// Share implements session.Grants.
func (t *seat) Share(n vfs.Node) ([]byte, *vfs.Control, error) { return t.s.host.Share(n) }

package host

import (
	"time"

	"capd/meter"
	"capd/vfs"
)

var errNoRoom = vfs.Errorf(vfs.Busy, "this host has as many connections as it may (limit connections); try again later")

// mostPatience is how long a new connection waits while every stranger has unread data or has just come.
const mostPatience = 50 * time.Millisecond

// room takes a place for one more stranger. If all are taken, another stranger has to go.
func (s *Server) room() bool {
	for end := time.Now().Add(mostPatience); ; {
		s.mu.Lock()
		ok, left := s.makeRoom(time.Now().After(end))
		s.mu.Unlock()
		switch {
		case ok:
			return true
		case left == nil:
			return false
		}
		select {
		case <-left:
		case <-time.After(time.Millisecond):
		}
	}
}

// makeRoom is one try of room. left is closed when there may be room again. It is nil when waiting
// does not help. s.mu is held.
func (s *Server) makeRoom(late bool) (ok bool, left chan struct{}) {
	for s.strange.Take(meter.Connections, 1) != nil {
		goes := s.strangers.goes()
		if goes == nil && late {
			goes = s.strangers.first()
		}
		switch {
		case goes == nil && (late || len(s.strangers.from) == 0):
			return false, nil
		case goes == nil:
			if s.left == nil {
				s.left = make(chan struct{})
			}
			return false, s.left
		}
		s.part(goes)
		goes.leave()
	}
	return true, nil
}

// part removes who from the strangers, if it is one of them. s.mu is held.
func (s *Server) part(who *stranger) {
	if who.at == nil && !who.aside {
		return
	}
	s.strangers.remove(who)
	s.setAside(who, false)
	s.strange.Give(meter.Connections, 1)
	if s.left != nil {
		close(s.left)
		s.left = nil
	}
}

package vfs

import (
	"context"
	"sync"
)

// A seat is the place in a bulkhead of a whole-file write, which it gives up while it waits
// for content. A Read that was left to itself may still be at that when the write ends.
type seat struct {
	mu   sync.Mutex
	of   inside // where it began, which stays
	in   inside // where it is
	has  bool   // a place
	over bool   // the write has ended
}

// leave gives the place up, and reports whether there was one.
func (s *seat) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has {
		return false
	}
	s.has = false
	s.in.exit()
	return true
}

// again takes a place again, as [inside.again] does, unless the write has ended.
func (s *seat) again(ctx context.Context, refused func()) {
	in := s.of.again(ctx, refused)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		in.exit()
		return
	}
	s.in, s.has = in, true
}

// end gives the place up for good.
func (s *seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.has {
		s.has = false
		s.in.exit()
	}
}

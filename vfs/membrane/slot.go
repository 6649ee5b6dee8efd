package membrane

import (
	"context"
	"sync"
)

// A slot is what a whole-file write has in a bulkhead. The write gives it up while it
// waits for content. An abandoned Read may still try to take it again when the write has
// ended.
type slot struct {
	mu    sync.Mutex
	first inside // where it began; never changes
	in    inside // where it is now
	has   bool   // the write has the slot now
	over  bool   // the write has ended

	giveUp func(error) // called when it gets no place again after a wait for a human; nil if it never has one
}

// leave gives up the slot, and reports whether the write had it.
func (s *slot) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has {
		return false
	}
	s.has = false
	s.in.exit()
	return true
}

// again takes the slot again, as [inside.again] does, unless the write has ended.
func (s *slot) again(ctx context.Context, refused func()) {
	in := s.first.again(ctx, refused)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		in.exit()
		return
	}
	s.in, s.has = in, true
}

// end gives up the slot for good.
func (s *slot) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.has {
		s.has = false
		s.in.exit()
	}
}

package git

import (
	"math"
	"sync"

	"capd/vfs"
)

// slotSize is the unit, in bytes, in which changed files are stored and copied on
// write.
const slotSize = 64 << 10

// spool stores what was written and not committed, in slots of one temporary file. It
// counts the contents that use each slot. Safe for concurrent use.
type spool struct {
	mu   sync.Mutex
	f    *temp
	uses []int32  // of slot i+1
	free []uint32 // unused slots
}

// hole is the slot that reads as zeros and is not stored.
const hole = 0

// take returns an unused slot with arbitrary bytes in it.
func (s *spool) take() (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		f, err := newTemp()
		if err != nil {
			return 0, err
		}
		s.f = f
	}
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		s.uses[slot-1] = 1
		return slot, nil
	}
	if len(s.uses) == math.MaxUint32-1 {
		return 0, vfs.Errorf(vfs.Limit, "too many uncommitted changes are stored here; remove some, or ask the host to commit them")
	}
	s.uses = append(s.uses, 1)
	return uint32(len(s.uses)), nil
}

// share counts one more use of each slot.
func (s *spool) share(slots []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slots {
		if slot != hole {
			s.uses[slot-1]++
		}
	}
}

// drop counts one use less of each slot.
func (s *spool) drop(slots ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slots {
		if slot == hole {
			continue
		}
		if s.uses[slot-1]--; s.uses[slot-1] == 0 {
			s.free = append(s.free, slot)
		}
	}
}

func (s *spool) shared(slot uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses[slot-1] > 1
}

func (s *spool) writeAt(slot uint32, p []byte, off int64) error {
	_, err := s.f.WriteAt(p, int64(slot-1)*slotSize+off)
	return hidden(err)
}

func (s *spool) readAt(slot uint32, p []byte, off int64) error {
	if slot == hole {
		clear(p)
		return nil
	}
	_, err := s.f.ReadAt(p, int64(slot-1)*slotSize+off)
	return hidden(err)
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil {
		s.f.Close()
	}
}

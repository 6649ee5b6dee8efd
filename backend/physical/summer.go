package physical

import (
	"crypto/sha256"
	"hash"
	"sync"

	"capd/vfs"
)

// A summer computes the version of content while it is written and synced. For larger
// contents it does so on a goroutine of its own.
type summer struct {
	known vfs.Version // found out in another way; zero if not
	h     hash.Hash
	queue chan *piece   // nil: no goroutine
	done  chan struct{} // closed when everything queued is summed
}

// piece is a buffer for copying.
type piece struct {
	n int
	b [128 << 10]byte
}

const (
	inlineSum = 32 << 10 // up to so many bytes, summing is faster than handing over
	queuedSum = 4        // pieces that wait to be summed
)

var pieces = sync.Pool{New: func() any { return new(piece) }}

func newPiece() *piece { return pieces.Get().(*piece) }

// add sums the first n bytes of p. It takes over p.
func (s *summer) add(p *piece) {
	if s.h == nil {
		s.h = sha256.New()
	}
	if s.queue == nil && p.n <= inlineSum {
		s.sum(p)
		return
	}
	if s.queue == nil {
		s.queue, s.done = make(chan *piece, queuedSum), make(chan struct{})
		go func() {
			defer close(s.done)
			for p := range s.queue {
				s.sum(p)
			}
		}()
	}
	s.queue <- p
}

func (s *summer) sum(p *piece) {
	s.h.Write(p.b[:p.n])
	pieces.Put(p)
}

// version returns the version of everything added. Nothing may be added after it.
func (s *summer) version() vfs.Version {
	if s.queue != nil {
		close(s.queue)
		<-s.done
		s.queue = nil
	}
	if s.h == nil {
		return s.known
	}
	return vfs.Version(s.h.Sum(nil))
}

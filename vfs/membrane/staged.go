package membrane

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"strings"
	"sync"

	"capd/meter"
	"capd/vfs"
)

// stagedReader is the reader that a store stages from. It ends when the right to write
// is revoked, when there is more content than room, and with ctx. It does not wait for
// a slow reader beyond that: it abandons a Read that is under way. What it has read
// counts as staged until end.
type stagedReader struct {
	ctx context.Context
	r   io.Reader
	t   target
	room
	bounds Bounds
	got    int64         // bytes
	dead   chan struct{} // closed by a revoke
	err    error         // why it ended

	slot   *slot       // the write's slot in the tree's bulkhead; nil for none
	giveUp func(error) // called when it gets no place again

	mu    sync.Mutex
	held  int64 // bytes counted as staged
	ended bool
}

func (s *stagedReader) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if _, _, err := s.t.allowed(s.ctx); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.read(p)
	switch {
	case n < 0:
		n, err = 0, vfs.Errorf(vfs.Invalid, "the reader says that it read more than the buffer holds")
	case s.left >= 0 && int64(n) > s.left:
		n, err = 0, s.tooMuch()
	case s.bounds.fits(s.got+int64(n)) != nil:
		n, err = 0, s.bounds.fits(s.got+int64(n))
	case n > 0:
		s.got += int64(n)
		if late := s.stage(int64(n)); late != nil {
			n, err = 0, late
		}
		if s.left >= 0 {
			s.left -= int64(n)
		}
	}
	s.err = err
	return n, err
}

var _ vfs.CloneReader = (*stagedReader)(nil)

// Size implements [vfs.CloneReader].
func (s *stagedReader) Size() int64 {
	if c, ok := s.r.(vfs.CloneReader); ok {
		return c.Size()
	}
	return 0
}

// Clone implements [vfs.CloneReader]. All of the content counts as staged.
func (s *stagedReader) Clone(fd uintptr) error {
	c, ok := s.r.(vfs.CloneReader)
	size := s.Size()
	switch {
	case !ok || s.got > 0 || s.err != nil || s.left >= 0 && size > s.left || s.bounds.fits(size) != nil:
		return vfs.Errorf(vfs.Unsupported, "read it") // which answers the error, if there is one
	}
	if _, _, err := s.t.allowed(s.ctx); err != nil {
		return err
	}
	left := s.slot != nil && s.slot.leave() // the content may be behind the same bulkhead
	err := c.Clone(fd)
	if left {
		s.slot.again(s.ctx, func() {
			err = cmp.Or(s.ctx.Err(), errNoAnswer)
			s.giveUp(err)
		})
	}
	if err == nil {
		s.got = size
		err = s.stage(size)
	}
	return err
}

// Cloned implements [vfs.CloneReader].
func (s *stagedReader) Cloned(v vfs.Version) error {
	if c, ok := s.r.(vfs.CloneReader); ok {
		return c.Cloned(v)
	}
	return vfs.At("", vfs.Unsupported)
}

// maxPiece is how many bytes are read at once from a reader that may be slow.
const maxPiece = 64 << 10

func (s *stagedReader) read(p []byte) (int, error) {
	if neverWaits(s.r) {
		return s.r.Read(p)
	}
	if s.slot == nil || !s.slot.leave() {
		return s.await(p)
	}
	n, err := s.await(p)
	var late error
	s.slot.again(s.ctx, func() {
		if late = cmp.Or(s.ctx.Err(), errNoAnswer); err != nil && err != io.EOF {
			late = err
		}
		s.giveUp(late)
	})
	if late != nil {
		return 0, late
	}
	return n, err
}

// await reads, and returns early if the write ends meanwhile.
func (s *stagedReader) await(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	piece := make([]byte, min(len(p), maxPiece))
	done := make(chan result, 1)
	go func() {
		r := result{0, vfs.Errorf(vfs.Internal, "the reader panicked")}
		defer func() {
			_ = recover() // only this write fails
			done <- r
		}()
		r.n, r.err = s.r.Read(piece)
	}()
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-s.dead:
		_, _, err := s.t.allowed(s.ctx)
		return 0, cmp.Or[error](err, vfs.Revoked)
	case r := <-done:
		if r.n < 0 || r.n > len(piece) {
			return -1, nil // a value that no reader may return
		}
		return copy(p, piece[:r.n]), r.err
	}
}

// neverWaits reports whether a Read of r returns at once. Then the Read is never
// abandoned, which it must not be when what r reads from belongs to the caller again
// after the write.
func neverWaits(r io.Reader) bool {
	switch r := r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	case *stagedReader: // of an inner view
		return neverWaits(r.r)
	}
	return false
}

// stage counts n more bytes as staged.
func (s *stagedReader) stage(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended { // an abandoned Read
		return nil
	}
	there := s.there
	if restores(s.ctx) {
		there = unlimited
	}
	if err := s.t.view.meters().take(meter.StagedBytes, n, there); err != nil {
		return err
	}
	s.held += n
	return nil
}

// end gives back what was counted: it was put in place, or dropped.
func (s *stagedReader) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.view.meters().give(meter.StagedBytes, s.held)
	s.held, s.ended = 0, true
}

// room is how much may be staged.
type room struct {
	left  int64 // bytes, those of there included; < 0: no bound
	there int64 // bytes of the content that will be replaced

	of   string // whose bound it is, for the error
	by   *meter.Meter
	kind meter.Kind // StoredBytes, or StagedBytes where that leaves less
	most int64      // of StagedBytes
}

var boundless = room{left: -1}

// room returns how much may be staged to replace size() bytes. Nobody may stage more
// than the quota could store.
func (p meters) room(size func() int64) room {
	r := boundless
	for m := range p.all {
		left, of, bounded := m.StoredRoom()
		if bounded && (r.left < 0 || left < r.left) {
			r.left, r.of, r.by, r.kind = left, of, m, meter.StoredBytes
		}
		most, of, bounded := m.Most(meter.StagedBytes)
		if bounded && (r.left < 0 || most < r.left) {
			r.left, r.of, r.by, r.kind, r.most = most, of, m, meter.StagedBytes, most
		}
	}
	if r.left < 0 {
		return r
	}
	if there := size(); there > 0 && there <= math.MaxInt64-r.left {
		r.there = there
		r.left += there
	}
	return r
}

// tooMuch is the error for a write that exceeds the bound by itself.
func (r *room) tooMuch() error {
	r.by.Refused(r.kind)
	if r.kind == meter.StagedBytes {
		return vfs.Errorf(vfs.Quota, "%s may have whole-file writes of %d bytes in progress (limit stagedBytes), and this one alone is more; ask its giver for more", r.of, r.most)
	}
	return vfs.Errorf(vfs.Quota, "%s", meter.TooMuch(r.of))
}

package authority

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Writes in place of one file through one capability form a span: its intent is on disk before the first of them, and the
// others wait for nothing. It ends when the file is synced or closed, when nothing was written for a second, or before another
// operation changes the path.

// quiet is how long a span goes on without a write.
const quiet = time.Second

// maxSpans is how many spans one capability may have.
const maxSpans = 64

// spans are the spans that go on. The zero value has none.
type spans struct {
	mu    sync.Mutex
	quiet time.Duration // how long one goes on without a write; 0 is quiet
	ended func(*span)   // is called with each that has ended, while mu is held
	all   map[spanKey]*span
	of    map[*meter.Meter][]*span // of each capability
	at    map[string][]*span       // of each path
}

type spanKey struct {
	by   *meter.Meter
	path string
}

// span is one span. spans.mu guards what changes.
type span struct {
	spanKey
	entry  record.Entry
	kept   *keeping  // of what was there before; nil keeps nothing
	once   sync.Once // begins it
	intent *record.Intent
	wrote  record.Span
	grew   int64
	err    error // of the last write that failed
	active int   // writes under way
	last   time.Time
	timer  *time.Timer
	over   bool // no write joins it any more
}

// inPlace reports whether op writes in place.
func inPlace(op membrane.Op) bool {
	return op.Kind == membrane.OpWrite || op.Kind == membrane.OpAppend || op.Kind == membrane.OpTruncate
}

// begin notes what is there and begins the intent of p, unless another write has done so. The change of a write says st.
func (p *span) begin(ctx context.Context, h *Host, op membrane.Op, st vfs.Staged) {
	p.once.Do(func() {
		if p.kept != nil {
			p.kept.ready(ctx, op, st)
		}
		p.intent = h.intend(p.entry, p.kept)
	})
}

// join returns the span that op belongs to. If there is none fresh makes one. The caller begins it, and calls leave.
func (s *spans) join(op membrane.Op, fresh func() *span) *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := spanKey{op.By(), op.Path}
	p := s.all[key]
	if p == nil {
		if len(s.of[key.by]) >= maxSpans {
			s.close(s.oldest(key.by))
		}
		p = fresh()
		p.spanKey, p.last = key, time.Now()
		p.timer = time.AfterFunc(s.patience(), func() { s.check(p) })
		s.add(p)
	}
	p.active++
	return p
}

func (s *spans) patience() time.Duration { return cmp.Or(s.quiet, quiet) }

func (s *spans) add(p *span) {
	if s.all == nil {
		s.all, s.of, s.at = map[spanKey]*span{}, map[*meter.Meter][]*span{}, map[string][]*span{}
	}
	s.all[p.spanKey] = p
	s.of[p.by] = append(s.of[p.by], p)
	s.at[p.path] = append(s.at[p.path], p)
}

// drop is the opposite of add.
func (s *spans) drop(p *span) {
	delete(s.all, p.spanKey)
	without(s.of, p.by, p)
	without(s.at, p.path, p)
}

// without removes p from the spans that m has for key.
func without[K comparable](m map[K][]*span, key K, p *span) {
	m[key] = slices.DeleteFunc(m[key], func(o *span) bool { return o == p })
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

// oldest returns the span of by in which nothing was written for longest.
func (s *spans) oldest(by *meter.Meter) *span {
	return slices.MinFunc(s.of[by], func(a, b *span) int { return a.last.Compare(b.last) })
}

// leave ends a write of p, which grew the store by e or failed with err.
func (s *spans) leave(p *span, op membrane.Op, e vfs.Effect, err error) {
	unwritten := p.intent.Wait() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	p.active--
	p.last = time.Now()
	p.note(op, e, err)
	if unwritten { // the next write tries to have one that is
		s.close(p)
	}
	s.settle(p)
}

// note counts a write.
func (p *span) note(op membrane.Op, e vfs.Effect, err error) {
	if err != nil {
		p.err = err
		return
	}
	if end := op.Offset + op.Length; op.Kind == membrane.OpWrite {
		if p.wrote.To == 0 {
			p.wrote.From = op.Offset
		}
		p.wrote.From, p.wrote.To = min(p.wrote.From, op.Offset), max(p.wrote.To, end)
	}
	p.wrote.Writes++
	p.grew += e.Bytes
}

// check closes p if it was quiet for long enough.
func (s *spans) check(p *span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.patience() - time.Since(p.last)
	switch {
	case p.over:
	case p.active > 0 || left > 0:
		p.timer.Reset(max(left, s.patience()/8))
	default:
		s.close(p)
	}
}

// rest closes the span of a file that was synced or closed.
func (s *spans) rest(by *meter.Meter, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[spanKey{by, path}]; p != nil {
		s.close(p)
	}
}

// before closes the spans of the paths that op changes.
func (s *spans) before(op membrane.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeThese(s.at[op.Path])
	if op.To != op.Path {
		s.closeThese(s.at[op.To])
	}
}

// closeAll closes all spans, at the end of a host.
func (s *spans) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		s.close(p)
	}
}

// closeIf closes those for which of is true.
func (s *spans) closeIf(of func(*span) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if of(p) {
			s.close(p)
		}
	}
}

// closeThese closes some spans. s.mu is held.
func (s *spans) closeThese(some []*span) {
	for _, p := range slices.Clone(some) { // close changes the list
		s.close(p)
	}
}

// close lets no more writes join p. s.mu is held.
func (s *spans) close(p *span) {
	if p.over {
		return
	}
	p.over = true
	p.timer.Stop()
	s.drop(p)
	s.settle(p)
}

// settle records how p ended, once it has.
func (s *spans) settle(p *span) {
	if !p.over || p.active > 0 || p.intent == nil {
		return
	}
	if p.intent.Wait() != nil {
		if p.kept != nil {
			p.kept.forget()
		}
		return
	}
	if p.wrote.Writes > 0 {
		p.err = nil
	}
	s.ended(p)
}

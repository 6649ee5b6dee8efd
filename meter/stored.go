package meter

import (
	"fmt"
	"math"
	"sync"
)

// An Effect is by how much a change makes stored data grow. Negative values mean that it shrinks.
type Effect struct{ Bytes, Nodes int64 }

// stored counts stored data. What a change frees is credited, but not below zero: removing what was
// there before earns no allowance.
type stored struct {
	mu       sync.Mutex
	used     Effect
	unused   Effect // what was credited below zero; only a revert uses it
	reserved Effect // for changes under way
	peak     Effect // the most that used ever was
}

// Lacks is the error that a change would make stored data grow beyond a limit.
type Lacks struct {
	Whose      string // whose meter it is: "this grant"
	Need, Left Effect
}

func (l *Lacks) Error() string {
	return fmt.Sprintf("the quota of %s is used up (this needs %d bytes and %d nodes; left are %d and %d)%s",
		l.Whose, l.Need.Bytes, l.Need.Nodes, l.Left.Bytes, l.Left.Nodes, l.Kind().forMore(l.Whose))
}

// TooMuch returns the text of the error for a write that needs more than is left of a
// quota. whose says whose quota it is, such as "this grant".
func TooMuch(whose string) string {
	return "this is more than the quota of " + whose + " has left" + StoredBytes.forMore(whose)
}

// Kind returns the kind whose limit is passed.
func (l *Lacks) Kind() Kind {
	if l.Need.Bytes > l.Left.Bytes {
		return StoredBytes
	}
	return StoredNodes
}

// Reserve reserves room for a change that makes stored data grow by at most e, in m and in all
// meters above. Settle ends the reservation. If there is not enough room, Reserve answers a
// [*Lacks].
func (m *Meter) Reserve(e Effect) error {
	r := e.growth()
	var few [8]Effect
	shares := m.storedShares(few[:0])
	for at, i := m, len(shares)-1; at != nil; at, i = at.parent, i-1 {
		if lacks := at.reserve(r, shares[i]); lacks != nil {
			for undo := m; undo != at; undo = undo.parent {
				undo.settle(r, Effect{})
			}
			m.Refused(lacks.Kind())
			return lacks
		}
	}
	return nil
}

// growth returns e without negative values.
func (e Effect) growth() Effect { return Effect{max(e.Bytes, 0), max(e.Nodes, 0)} }

func (e Effect) plus(o Effect) Effect { return Effect{e.Bytes + o.Bytes, e.Nodes + o.Nodes} }

func (e Effect) minus(o Effect) Effect { return Effect{e.Bytes - o.Bytes, e.Nodes - o.Nodes} }

// Settle ends a reservation of Reserve(reserved): stored data has grown by got.
func (m *Meter) Settle(reserved, got Effect) {
	for at := m; at != nil; at = at.parent {
		at.settle(reserved.growth(), got)
	}
}

// Resume sets by how much stored data has grown already, for a meter that takes the place of an earlier one. The meters
// above, which may have counted it, stay as they are. It is called before m is used.
func (m *Meter) Resume(e Effect) {
	m.settle(Effect{}, e.growth())
}

// Stored returns by how much stored data has grown, including what is reserved.
func (m *Meter) Stored() Effect { return m.stored.now() }

func (m *Meter) reserve(r, share Effect) *Lacks {
	s := &m.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sum()
	left := Effect{
		min(share.Bytes, rest(m.limit[StoredBytes].Load(), now.Bytes)),
		min(share.Nodes, rest(m.limit[StoredNodes].Load(), now.Nodes)),
	}
	if r.Bytes > 0 && r.Bytes > left.Bytes || r.Nodes > 0 && r.Nodes > left.Nodes {
		return &Lacks{Whose: m.whose, Need: r, Left: Effect{max(left.Bytes, 0), max(left.Nodes, 0)}}
	}
	s.reserved = s.reserved.plus(r)
	return nil
}

// rest returns what limit leaves beside used. A limit of 0 means none.
func rest(limit, used int64) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - used
}

// storedShares appends how much each meter may make stored data grow, from the topmost down to m.
// Each gets half of what is left, so that as much is left for the others. What others removed
// does not reduce it.
func (m *Meter) storedShares(list []Effect) []Effect {
	p := m.parent
	if p == nil {
		return append(list, Effect{math.MaxInt64, math.MaxInt64})
	}
	list = p.storedShares(list)
	all, mine, beside := p.stored.now(), m.stored.now(), list[len(list)-1]
	share := func(k Kind, all, mine, beside int64) int64 {
		free := min(beside, rest(p.limit[k].Load(), all))
		if free == math.MaxInt64 {
			return free
		}
		return (free - min(mine, all)) / 2
	}
	return append(list, Effect{share(StoredBytes, all.Bytes, mine.Bytes, beside.Bytes), share(StoredNodes, all.Nodes, mine.Nodes, beside.Nodes)})
}

// storedShare returns the last of storedShares, which is m's.
func (m *Meter) storedShare() Effect {
	var few [8]Effect
	shares := m.storedShares(few[:0])
	return shares[len(shares)-1]
}

// StoredRoom returns by how many bytes m, and all meters above, allow stored data to grow now, and
// whose limit is the least. bounded is false if there is no limit.
func (m *Meter) StoredRoom() (bytes int64, whose string, bounded bool) {
	bytes = math.MaxInt64
	var few [8]Effect
	shares := m.storedShares(few[:0])
	for at, i := m, len(shares)-1; at != nil; at, i = at.parent, i-1 {
		room := min(shares[i].Bytes, rest(at.limit[StoredBytes].Load(), at.stored.now().Bytes))
		if room < bytes {
			bytes, whose, bounded = room, at.whose, true
		}
	}
	return max(bytes, 0), whose, bounded
}

func (m *Meter) settle(reserved, got Effect) {
	s := &m.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved, s.used = s.reserved.minus(reserved), s.used.plus(got)
	s.level()
}

// Revert counts a revert by the host, which made stored data grow by e. Afterwards Used is by how
// much the data has grown since the meter was made, or 0 if it has shrunk. So data whose removal
// earned no allowance costs none when it comes back.
func (m *Meter) Revert(e Effect) {
	for at := m; at != nil; at = at.parent {
		at.stored.revert(e)
	}
}

func (s *stored) revert(e Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.unused = s.used.plus(e).minus(s.unused), Effect{}
	s.level()
}

// level moves what was credited below zero to unused, and updates peak. s.mu is held.
func (s *stored) level() {
	got := s.used.growth()
	s.used, s.unused = got, s.unused.plus(got.minus(s.used))
	s.peak.Bytes, s.peak.Nodes = max(s.peak.Bytes, s.used.Bytes), max(s.peak.Nodes, s.used.Nodes)
}

func (s *stored) now() Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum()
}

func (s *stored) most() Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// sum returns what is used and reserved. s.mu is held.
func (s *stored) sum() Effect { return s.used.plus(s.reserved) }

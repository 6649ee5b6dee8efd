package meter

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Meter counts what one grant, or one share of it, uses. The zero Meter is not usable;
// see [New], [Host.Grant] and [Meter.Part].
type Meter struct {
	name   string
	parent *Meter // nil for the topmost meter
	grant  *Meter // see Grant
	whose  string // its name in errors
	depth  int    // how many meters are above it

	used    [Kinds]atomic.Int64
	peak    [Kinds]atomic.Int64 // the most that used ever was
	limit   [Kinds]atomic.Int64 // 0: no limit
	refused [Kinds]atomic.Int64

	stored stored
	claims queues
	keeps  keeps
	flows  [lanes]flow

	activity [actors]activity
	actor    int          // its index in its grant's activity
	actors   atomic.Int64 // how many parts of the root grant were made
	lanes    *[lanes]lane

	mu    sync.Mutex
	parts map[*Meter]struct{}
}

// New returns a meter that is no part of another, with limits l. It counts only what is held: it has no
// lanes. Errors call it whose, such as "the grant".
func New(name, whose string, l Limits) *Meter {
	m := &Meter{name: name, whose: whose}
	m.grant = m
	for i := range m.flows {
		m.flows[i].meter = m
	}
	m.Set(l)
	return m
}

// MaxDepth is how far below its root grant's meter the meter of a share may be, where guests make shares.
// Each meter above adds the same cost to every Take. At that depth next to nothing is left to share, since a
// share gets at most half of what its giver may have. Part does not check it.
const MaxDepth = 16

// Depth returns how far below the meter of its root grant m is: 1 for a share, 2 for a share of a share.
func (m *Meter) Depth() int { return max(m.depth-1, 0) }

// Part returns a new meter whose use counts in m, too. Besides its part of m it has no limit of its own.
// [Meter.End] ends it.
func (m *Meter) Part(name string) *Meter {
	p := &Meter{name: name, whose: m.whose, depth: m.depth + 1, parent: m, grant: m.grant, lanes: m.lanes}
	if m.parent == nil {
		p.grant = p
	} else {
		p.actor = 1 + int(p.grant.actors.Add(1))%(actors-1)
	}
	for i := range p.flows {
		p.flows[i].meter = p
		p.flows[i].parent = &m.flows[i]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts == nil {
		m.parts = map[*Meter]struct{}{}
	}
	m.parts[p] = struct{}{}
	return p
}

// End removes m from its parent's parts. The time that m had counts for the parent from then on. If m is a
// share's, so do its refusals. What m holds still counts until it is given back.
func (m *Meter) End() {
	if p := m.parent; p != nil {
		p.mu.Lock()
		delete(p.parts, m)
		p.mu.Unlock()
		for i := range m.flows {
			p.flows[i].turns.Add(m.flows[i].turns.Swap(0))
			p.flows[i].spent.Add(m.flows[i].spent.Swap(0))
		}
		for k := range m.refused {
			if n := m.refused[k].Swap(0); p.parent != nil {
				p.refused[k].Add(n)
			}
		}
	}
}

// Grant returns the meter of m's root grant, which may be m itself.
func (m *Meter) Grant() *Meter { return m.grant }

// Name returns the name that the meter was made with.
func (m *Meter) Name() string { return m.name }

// Set changes limits. What is held above a new limit stays until it is given back.
func (m *Meter) Set(l Limits) {
	for k, n := range l {
		switch {
		case n > 0:
			m.limit[k].Store(n)
		case n < 0:
			m.limit[k].Store(0)
		}
	}
	for _, k := range []Kind{MessageBytes, ReplyBytes} {
		m.queues().tell(k)
	}
}

// Replace makes the limits those of l. A kind that l does not have gets no limit.
func (m *Meter) Replace(l Limits) {
	all := make(Limits, Kinds)
	for k := range Kinds {
		all[k] = cmp.Or(l[k], -1)
	}
	m.Set(all)
}

// Limit returns how much of k may be held, or 0 for no limit. The limit on StagedBytes is never above that on
// StoredBytes.
func (m *Meter) Limit(k Kind) int64 {
	limit := m.limit[k].Load()
	if k == StagedBytes {
		if stored := m.limit[StoredBytes].Load(); limit == 0 || stored > 0 && stored < limit {
			return stored
		}
	}
	return limit
}

// Most returns the least limit of k that m or a meter above has, and whose it is. bounded is false if there
// is none.
func (m *Meter) Most(k Kind) (most int64, whose string, bounded bool) {
	for at := m; at != nil; at = at.parent {
		if limit := at.Limit(k); limit > 0 && (!bounded || limit < most) {
			most, whose, bounded = limit, at.whose, true
		}
	}
	return most, whose, bounded
}

// Used returns how much of k is held, including what is reserved.
func (m *Meter) Used(k Kind) int64 {
	switch k {
	case StoredBytes:
		return m.stored.now().Bytes
	case StoredNodes:
		return m.stored.now().Nodes
	}
	return m.used[k].Load()
}

// Take takes n of k, in m and in all meters above. If there is not enough it takes nothing and answers a
// [*Full]. It does not wait.
func (m *Meter) Take(k Kind, n int64) error { return m.TakeOver(k, n, 0) }

// TakeOver is Take with all limits raised by over. It checks before it takes, so that a failed try gives
// nothing back and so wakes nobody.
func (m *Meter) TakeOver(k Kind, n, over int64) error {
	if full := m.take(k, n, over); full != nil {
		m.refused[k].Add(1)
		return full
	}
	return nil
}

// take is TakeOver without counting a refusal.
func (m *Meter) take(k Kind, n, over int64) *Full {
	if full, _, _ := m.look(k, over, n); full != nil {
		return full
	}
	m.Force(k, n)
	if full, _, _ := m.look(k, over, 0); full != nil { // others took some at the same moment
		m.Give(k, n)
		return full
	}
	return nil
}

// Refused counts a request for k that was refused without a call of Take.
func (m *Meter) Refused(k Kind) { m.refused[k].Add(1) }

// TakeFirst is Take, except that a meter that holds nothing may exceed its part beside others, for its first.
// The root grant must stay within its limit, or hold nothing else. TakeFirst counts no refusal: the caller
// then waits with a [Claim], which counts one.
func (m *Meter) TakeFirst(k Kind, n int64) bool {
	if m.take(k, n, 0) == nil {
		return true
	}
	if !m.first(k, n) {
		return false
	}
	m.Force(k, n)
	if g := m.Grant(); !g.fitsFirst(k, n, g.Used(k)) {
		m.Give(k, n)
		return false
	}
	return true
}

// couldFirst reports whether TakeFirst would succeed now.
func (m *Meter) couldFirst(k Kind, n int64) bool {
	if g := m.Grant(); !g.fitsFirst(k, n, g.Used(k)+n) { // usually the answer is here, and look takes ten times as long
		return false
	}
	full, _, _ := m.look(k, 0, n)
	return full == nil || m.first(k, n)
}

// first reports whether m may have n as its first; see TakeFirst.
func (m *Meter) first(k Kind, n int64) bool {
	g := m.Grant()
	return m.Used(k) <= 0 && g.fitsFirst(k, n, g.Used(k)+n)
}

// fitsFirst reports whether the root grant m may give out n of k as somebody's first. used includes n.
func (m *Meter) fitsFirst(k Kind, n, used int64) bool {
	limit := m.Limit(k)
	return used == n || used <= limit || limit == 0
}

// Force takes n of k whatever the limits are, for what is there already.
func (m *Meter) Force(k Kind, n int64) {
	for at := m; at != nil; at = at.parent {
		if used := at.used[k].Add(n); used > at.peak[k].Load() {
			at.raise(k, used)
		}
	}
}

// raise notes that used of k was held.
func (m *Meter) raise(k Kind, used int64) {
	for peak := m.peak[k].Load(); used > peak && !m.peak[k].CompareAndSwap(peak, used); {
		peak = m.peak[k].Load()
	}
}

// Passed returns the error that Take would answer for 0 more: more of k is held, in m or above, than may be;
// see Force. far is true if a limit is passed by more than a third.
func (m *Meter) Passed(k Kind) (full *Full, far bool) {
	full, _, _ = m.look(k, 0, 0)
	for at := m; at != nil; at = at.parent {
		if limit := at.limit[k].Load(); limit > 0 && at.used[k].Load() > limit+limit/3 {
			far = true
		}
	}
	return full, far
}

// look walks once from the topmost meter down to m. full is the limit that more of k would pass, the lowest
// meter's if there are several. free is what m then leaves free, within its limit and beside the other parts
// of its parent. That is the most that each part of m may hold.
func (m *Meter) look(k Kind, over, more int64) (full *Full, free int64, bounded bool) {
	var room int64 // what the parent leaves free
	var shared bool
	if m.parent != nil {
		full, room, shared = m.parent.look(k, over, more)
	}
	if own := m.full(k, over, more, room, shared); own != nil {
		full = own
	}
	used := m.used[k].Load() + more
	if shared {
		free, bounded = (room-used)/2, true
	}
	if limit := m.Limit(k); limit > 0 && (!bounded || limit-used < free) {
		free, bounded = limit-used, true
	}
	return full, free, bounded
}

// full returns which limit of m's is passed with more of k, or nil. If shared is set, m may have at most
// room.
func (m *Meter) full(k Kind, over, more, room int64, shared bool) *Full {
	used := m.used[k].Load() + more - over
	if limit := m.Limit(k); limit > 0 && used > limit {
		return &Full{Kind: k, Limit: limit, Whose: m.whose}
	}
	first := used <= 1 // everybody may have one, while there is one
	if shared && used > room && !(first && room >= 0) {
		return &Full{Kind: k, Limit: max((room+used)/2, 0), Whose: m.whose, Share: true} // room was already reduced by what was just taken
	}
	return nil
}

// Give gives back n of k, in m and in all meters above.
func (m *Meter) Give(k Kind, n int64) {
	for at := m; at != nil; at = at.parent {
		at.used[k].Add(-n)
		if at.parent == nil && (k == MessageBytes || k == ReplyBytes) {
			at.claims.tell(k)
		}
	}
	if k == Threads && m.lanes != nil {
		m.unstick()
	}
}

// Full is the error that no more of a kind can be had.
type Full struct {
	Kind  Kind
	Limit int64
	Whose string // whose meter it is: "this grant"
	Share bool   // Limit is what the meter may hold now beside others
}

func (f *Full) Error() string {
	k := kinds[f.Kind]
	switch {
	case f.Share && f.Limit == 0:
		return fmt.Sprintf("others leave %s no %s now%s%s, or try again later", f.Whose, k.noun, f.Kind.in(), k.help)
	case f.Share:
		return fmt.Sprintf("others leave %s only %d %s now%s%s, or try again later", f.Whose, f.Limit, k.noun, f.Kind.in(), k.help)
	}
	return fmt.Sprintf("%s holds all of its %d %s%s", f.Whose, f.Limit, k.noun, f.Kind.forMore(f.Whose))
}

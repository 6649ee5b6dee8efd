package meter

import (
	"math"
	"time"
)

// A Use is what is held of one kind.
type Use struct {
	Kind    Kind
	Used    int64
	Limit   int64 // NoLimit if there is none
	Share   int64 // the most that it may hold now beside others; NoLimit if others do not matter
	Refused int64 // how often a request was refused
	Peak    int64 // roughly the most that was held at once: tries that failed at the same moment may count
}

// NoLimit means no limit in [Limits] and [Use].
const NoLimit = -1

// Uses returns what is held of each kind, in the order of the kinds.
func (m *Meter) Uses() []Use {
	all := make([]Use, Kinds)
	for k := range Kinds {
		u := Use{Kind: k, Used: m.Used(k), Limit: NoLimit, Share: NoLimit, Refused: m.refused[k].Load(), Peak: m.mostUsed(k)}
		if limit := m.Limit(k); limit > 0 {
			u.Limit = limit
		}
		if left, bounded := m.leftShare(k); bounded {
			u.Share = u.Used + max(left, 0)
		}
		all[k] = u
	}
	return all
}

// mostUsed returns the most of k that was held at once, without what was only reserved.
func (m *Meter) mostUsed(k Kind) int64 {
	switch k {
	case StoredBytes:
		return m.stored.most().Bytes
	case StoredNodes:
		return m.stored.most().Nodes
	}
	return m.peak[k].Load()
}

// leftShare returns how much more of k m may hold beside the other parts of its parent. It becomes
// less with each that m takes.
func (m *Meter) leftShare(k Kind) (left int64, bounded bool) {
	switch k {
	case StoredBytes:
		left = m.storedShare().Bytes
		return left, left != math.MaxInt64
	case StoredNodes:
		left = m.storedShare().Nodes
		return left, left != math.MaxInt64
	}
	if m.parent == nil {
		return 0, false
	}
	_, room, bounded := m.parent.look(k, 0, 0)
	return (room - m.used[k].Load()) / 2, bounded
}

// Turns describes what was done in one lane, and what waits.
type Turns struct {
	Lane    Lane
	Given   int64         // to calls, or to reads of a connection
	Spent   time.Duration // time in turns; for Light roughly
	Waiting int           // requests that wait now
	Longest time.Duration // how long the oldest of them has waited
}

// Turns returns what m and all its parts did in each lane.
func (m *Meter) Turns() []Turns {
	all := make([]Turns, lanes)
	for i := range all {
		all[i] = m.turns(Lane(i))
	}
	return all
}

func (m *Meter) turns(l Lane) Turns {
	t := Turns{Lane: l}
	m.add(&t)
	if m.lanes == nil {
		return t
	}
	lane, f := &m.lanes[l], &m.flows[l]
	lane.mu.Lock()
	defer lane.mu.Unlock()
	t.Waiting = f.waiting
	now := time.Now()
	f.each(func(f *flow) {
		for _, first := range []*Turn{f.own.first, f.going.first} {
			if first != nil {
				t.Longest = max(t.Longest, now.Sub(first.asked))
			}
		}
	})
	return t
}

// add adds what m and its parts did.
func (m *Meter) add(t *Turns) {
	f := &m.flows[t.Lane]
	t.Given += f.turns.Load()
	t.Spent += time.Duration(f.spent.Load())
	for _, p := range m.Parts() {
		p.add(t)
	}
}

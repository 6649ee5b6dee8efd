package meter

import (
	"math"
	"time"
)

// A Use is what is held of one kind.
type Use struct {
	Kind    Kind
	Used    int64
	Limit   int64 // NoLimit: none
	Share   int64 // what it may hold beside others now, at most; NoLimit: whatever there is
	Refused int64 // how often there was none
	Peak    int64 // the most that was held at once, about: what is given back at once, since others were quicker, may count
}

// NoLimit stands for no limit in [Limits] and [Use].
const NoLimit = -1

// Uses returns what is held of each kind, in their order.
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

// mostUsed is the most of k that was held at once, without what was only reserved.
func (m *Meter) mostUsed(k Kind) int64 {
	switch k {
	case StoredBytes:
		return m.stored.most().Bytes
	case StoredNodes:
		return m.stored.most().Nodes
	}
	return m.peak[k].Load()
}

// leftShare is how much more of k the meter may hold beside the others of its parent's: each one more
// leaves one less.
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

// Turns is what was done in one lane, and what waits.
type Turns struct {
	Lane    Lane
	Given   int64         // calls, or what of a connection was read at once
	Spent   time.Duration // in turns; of Light about
	Waiting int           // now
	Longest time.Duration // that something has waited that waits now
}

// Turns returns what was done in each lane, by the meter and all its parts.
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

// add counts what m and its parts did.
func (m *Meter) add(t *Turns) {
	f := &m.flows[t.Lane]
	t.Given += f.turns.Load()
	t.Spent += time.Duration(f.spent.Load())
	for _, p := range m.Parts() {
		p.add(t)
	}
}

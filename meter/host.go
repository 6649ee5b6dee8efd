package meter

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// A Host is what one process has to give to all root grants.
type Host struct {
	all   *Meter // of which every root grant's meter is a part
	lanes [lanes]lane

	begun     sync.Once // for strangers
	strangers *Meter
}

// HostLimits is what a host has for all guests, unless it is told otherwise.
//
// A grant that is alone gets half of it (see the package comment), so that a figure here is twice
// what one grant may have.
func HostLimits() Limits {
	return Limits{
		Connections:  4096,
		Threads:      256,
		MessageBytes: 1 << 30,
		CallBytes:    1 << 30,
		ReplyBytes:   1 << 30,
	}
}

// GrantLimits is what a root grant may have, unless it is told otherwise.
func GrantLimits() Limits {
	return Limits{
		Connections:  256,
		Nodes:        32_768,
		Streams:      256,
		Writers:      1024,
		Listings:     4,
		Shares:       1024,
		MessageBytes: 64 << 20,
		CallBytes:    48 << 20,
		ReplyBytes:   32 << 20,
		Threads:      128,
		Waits:        2048,
	}
}

// StrangerLimits is what all connections may have together that hold nothing yet.
func StrangerLimits() Limits {
	return Limits{
		Connections:  256,
		MessageBytes: 32 << 20,
		CallBytes:    8 << 20,
		ReplyBytes:   8 << 20,
		Threads:      16,
		Waits:        64,
	}
}

// NewHost returns a host that has l to give; what l does not say is as HostLimits has it.
func NewHost(l Limits) *Host {
	h := &Host{all: New("host", "this host", HostLimits())}
	h.all.Set(l)
	procs := runtime.GOMAXPROCS(0)
	for kind, slots := range [lanes]int{Light: procs, Work: 8 * procs, Heavy: max(1, procs/2)} {
		h.lanes[kind].init(Lane(kind), slots, &h.all.flows[kind])
	}
	h.lanes[Work].shared = max(1, int64(procs)/2)
	h.all.lanes = &h.lanes
	return h
}

// Alone returns a meter of a host of its own, which nobody else waits for: so many calls may be in
// progress, of whatever lane.
func Alone(calls int) *Meter {
	h := &Host{all: New("host", "this connection", nil)}
	for kind, slots := range [lanes]int{Light: math.MaxInt32, Work: calls, Heavy: calls} {
		h.lanes[kind].init(Lane(kind), slots, &h.all.flows[kind])
		h.lanes[kind].lend, h.lanes[kind].ticks = 0, -1 // nobody looks after it
	}
	h.all.lanes = &h.lanes
	return h.all
}

// thisGrant is what errors call a grant. Its giver can change its limits.
const thisGrant = "this grant"

// Grant returns the meter of a new root grant, with limits; what l does not say is as GrantLimits
// has it.
func (h *Host) Grant(name string, l Limits) *Meter {
	m := h.all.Part(name)
	m.whose = thisGrant
	m.Set(GrantLimits())
	m.Set(l)
	return m
}

// Strangers returns the meter of all connections that hold nothing yet.
func (h *Host) Strangers() *Meter {
	h.begun.Do(func() {
		h.strangers = h.all.Part("")
		h.strangers.whose = "whoever has restored nothing"
		h.strangers.Set(StrangerLimits())
	})
	return h.strangers
}

// Turns returns how many turns of l there are at once for a grant that is alone.
func (h *Host) Turns(l Lane) int { return int(h.lanes[l].alone) }

// All returns what all guests use together, and may.
func (h *Host) All() *Meter { return h.all }

// Parts returns the parts of m that have not ended, in no order.
func (m *Meter) Parts() []*Meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(func(yield func(*Meter) bool) {
		for p := range m.parts {
			if !yield(p) {
				return
			}
		}
	})
}

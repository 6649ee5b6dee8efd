package meter

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
)

// A Host is what one process has to give to all root grants.
type Host struct {
	all   *Meter // every root grant's meter is a part of it
	lanes [lanes]lane

	begun     sync.Once // for strangers
	strangers *Meter
}

// HostLimits returns the defaults of what a host has for all guests.
//
// A grant that is alone gets half of it (see the package comment). So each figure is twice what one
// grant may have.
func HostLimits() Limits {
	return Limits{
		Connections:  4096,
		Threads:      256,
		MessageBytes: 1 << 30,
		CallBytes:    1 << 30,
		ReplyBytes:   1 << 30,
	}
}

// GrantLimits returns the default limits of a root grant.
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
		Temps:        64,
		Watches:      16_384,
	}
}

// StrangerLimits returns the limits of all connections together that hold nothing yet.
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

// NewHost returns a host that has l to give. HostLimits has the defaults.
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

// Alone returns a meter of a host of its own, in which nobody else waits. In each lane that many
// calls may be in progress at once.
func Alone(calls int) *Meter {
	h := &Host{all: New("host", "this connection", nil)}
	for kind, slots := range [lanes]int{Light: math.MaxInt32, Work: calls, Heavy: calls} {
		h.lanes[kind].init(Lane(kind), slots, &h.all.flows[kind])
		h.lanes[kind].lend, h.lanes[kind].ticks = 0, -1 // no turn is lent, and no timer runs
	}
	h.all.lanes = &h.lanes
	return h.all
}

// thisGrant is what errors call a grant. Its giver can change the grant's limits.
const thisGrant = "this grant"

// Grant returns the meter of a new root grant, with limits l. GrantLimits has the defaults.
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

// Turns returns how many turns of l a grant that is alone can have at once.
func (h *Host) Turns(l Lane) int { return int(h.lanes[l].alone) }

// All returns the meter of all guests together.
func (h *Host) All() *Meter { return h.all }

// Parts returns the parts of m that have not ended, in no particular order.
func (m *Meter) Parts() []*Meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.parts))
}

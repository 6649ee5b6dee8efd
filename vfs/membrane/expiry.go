package membrane

import "time"

// A gate expires by comparing the time when somebody uses it, and not by a timer, which
// would stand still while the machine is suspended. A gate that can expire has the bit
// timed, as have all below it, so that other gates need not look at the clock.

// ExpireAt makes the gate expire at t, by its tree's clock, unless it expires earlier
// already. From then on every call answers expired. Those who only wait are told when
// somebody calls, or when Expire is called.
func (g *Gate) ExpireAt(t time.Time) {
	g.tree.mu.Lock()
	g.expires = earlier(g.expires, max(t.UnixMilli(), 1))
	g.refresh()
	g.tree.mu.Unlock()
	g.Expire()
}

// SetExpiry makes the gate expire at t, or never by itself if t is the zero time, whatever was set
// before. A gate that has expired stays so. A gate above may still expire earlier.
func (g *Gate) SetExpiry(t time.Time) {
	g.tree.mu.Lock()
	g.expires = 0
	if !t.IsZero() {
		g.expires = max(t.UnixMilli(), 1)
	}
	g.refresh()
	g.tree.mu.Unlock()
	g.Expire()
}

// Deadline returns when the gate, or the first of those above it, expires. ok is false if
// none does.
func (g *Gate) Deadline() (t time.Time, ok bool) {
	until := g.until.Load()
	return time.UnixMilli(until), until != 0
}

// Expire tells those who wait for the gate, or for what is derived from it, if its time or
// that of a gate above it is over. It reports whether the gate has expired. A host calls it
// every few seconds for gates that can expire.
func (g *Gate) Expire() bool {
	if g.due() {
		for _, over := range g.overdue() {
			over.set(expired, 0)
		}
	}
	return mode(g.word.Load())&expired != 0
}

// overdue returns those of g and the gates above it whose own time is over.
func (g *Gate) overdue() (all []*Gate) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	now := g.tree.clock.Now()
	seen, queue := map[*Gate]bool{g: true}, []*Gate{g}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		if at.expires != 0 && at.expires <= now {
			all = append(all, at)
		}
		for _, p := range at.parents {
			if !seen[p] && mode(p.word.Load())&timed != 0 {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return all
}

// due reports whether the time of g, or of a gate above it, is over and was not noted yet.
func (g *Gate) due() bool {
	if mode(g.word.Load())&(timed|expired) != timed {
		return false
	}
	until := g.until.Load() // 0 while SetExpiry takes the deadline away
	return until != 0 && g.tree.clock.Now() >= until
}

// mode is what g refuses now.
func (g *Gate) mode() mode {
	m := mode(g.word.Load()) & modeBits
	if g.due() {
		m |= expired
	}
	return m
}

// earlier returns the earlier of two times, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

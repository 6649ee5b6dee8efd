package meter

import "time"

// Press counts the active grants, as the lane Work does every few milliseconds while somebody waits.
func (h *Host) Press() {
	l := &h.lanes[Work]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.press(time.Now())
}

// Slots returns how many turns of Work there are at once now.
func (h *Host) Slots() int64 { return h.lanes[Work].slots.Load() }

// Taken returns how many turns of l are taken now.
func (m *Meter) Taken(l Lane) int64 { return m.lanes[l].state.Load() & takenMask }

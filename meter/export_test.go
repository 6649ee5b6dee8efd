package meter

import "time"

// Press looks how many grants do something, as the lane of Work does every few milliseconds while somebody waits.
func (h *Host) Press() {
	l := &h.lanes[Work]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.press(time.Now())
}

// Slots is how many turns of Work there are at once now.
func (h *Host) Slots() int64 { return h.lanes[Work].slots.Load() }

// Taken returns how many turns of l are had now.
func (m *Meter) Taken(l Lane) int64 { return m.lanes[l].state.Load() & takenMask }

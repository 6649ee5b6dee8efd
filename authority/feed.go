package authority

import (
	"strings"

	"capd/meter"
)

// Lost has guests that are told of changes at path, or below, list there again: something was changed in a way that is not told.
func (h *Host) Lost(path string) { h.feed.Lost(path) }

// shareID returns the id that the holder of the grant with the meter of knows the share with the meter by under. It is empty for
// what is not shared from that grant.
func (h *Host) shareID(of, by *meter.Meter) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, share := h.residents.byMeter[of], h.residents.byMeter[by]
	if from == nil || share == nil {
		return ""
	}
	for g := share.parent; g != nil; g = g.parent {
		if g == from {
			return strings.TrimPrefix(share.name, from.name+"/")
		}
	}
	return ""
}

// lives reports whether the grant with the meter m is resident.
func (h *Host) lives(m *meter.Meter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residents.byMeter[m] != nil
}

package authority

// WaitForBurials waits until what was revoked has let go of what it held.
func (h *Host) WaitForBurials() { h.burials.Wait() }

// Filed returns how many entries each index of the registry has.
func (h *Host) Filed() (digests, grants, guests int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.registry
	return len(r.byDigest), r.byOrder.Len(), len(r.guests)
}

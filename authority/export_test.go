package authority

// WaitForBurials waits until what was revoked has let go of what it held.
func (h *Host) WaitForBurials() { h.burials.Wait() }

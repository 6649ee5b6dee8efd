package vat

// Promises is how many promises the peer's open call id has.
func Promises(c *Conn, id uint32) int {
	c.mu.Lock()
	a := c.answers.get(id)
	c.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.promises)
}

package vat

// Promises returns how many promises the open call id of the peer has.
func Promises(c *Conn, id uint32) int {
	c.mu.Lock()
	a := c.answers.get(id)
	c.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.promises)
}

// LockPromise blocks everybody who looks at the promise c, until unlock.
func LockPromise(c *Cap) (unlock func()) {
	p := c.target.(*promise)
	p.mu.Lock()
	return p.mu.Unlock
}

// LockResolving blocks everybody who decides where a promise leads, until unlock.
func LockResolving() (unlock func()) {
	resolving.Lock()
	return resolving.Unlock
}

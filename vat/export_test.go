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

// LockPromise stalls whoever looks at the promise that c is, until unlock.
func LockPromise(c *Cap) (unlock func()) {
	p := c.target.(*promise)
	p.mu.Lock()
	return p.mu.Unlock
}

// LockResolving stalls whoever decides where a promise leads, until unlock.
func LockResolving() (unlock func()) {
	resolving.Lock()
	return resolving.Unlock
}

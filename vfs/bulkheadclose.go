package vfs

// close runs f, which closes something and may block, when its turn comes: one at a
// time, and on another goroutine than the caller's.
func (b *Bulkhead) close(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closes = append(b.closes, f)
	if !b.closing {
		b.closing = true
		go b.janitor()
	}
}

func (b *Bulkhead) janitor() {
	for {
		b.mu.Lock()
		if len(b.closes) == 0 {
			b.closing, b.closes = false, nil
			b.mu.Unlock()
			return
		}
		f := b.closes[0]
		b.closes = b.closes[1:]
		b.mu.Unlock()
		f()
	}
}

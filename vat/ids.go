package vat

// ids gives out numbers for one table. They are small, and are used again after they were returned.
type ids struct {
	next uint32
	free []uint32
}

func (t *ids) take() uint32 {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	t.next++
	return t.next - 1
}

func (t *ids) put(id uint32) { t.free = append(t.free, id) }

package overlay

// Miscounted reports whether the count of nodes is not what the tree holds.
func (o *Overlay) Miscounted() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var count func(*node) int
	count = func(n *node) (sum int) {
		if n.parent != nil && !n.through() {
			sum = 1
		}
		for _, c := range n.children {
			sum += count(c)
		}
		return sum
	}
	return count(o.root) != o.recorded
}

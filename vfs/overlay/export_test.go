package overlay

// Miscounted reports whether the count of nodes, or of those in a directory that stand, is not what the tree holds.
func (o *Overlay) Miscounted() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	wrong := false
	var count func(*node) int
	count = func(n *node) (sum int) {
		standing := 0
		for _, c := range n.children {
			if c.stands() {
				standing++
			}
		}
		wrong = wrong || standing != n.standing
		if n.parent != nil && !n.through() {
			sum = 1
		}
		for _, c := range n.children {
			sum += count(c)
		}
		return sum
	}
	return count(o.root) != o.recorded || wrong
}

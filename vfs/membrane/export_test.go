package membrane

// Below counts the gates below g, including routes and composites.
func Below(g *Gate) int {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return len(g.below()) - 1
}

// Watchers counts those who wait for g, or a gate below it, to be revoked.
func Watchers(g *Gate) (n int) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	for _, b := range g.below() {
		n += len(b.watchers)
	}
	return n
}

// Changing counts the changes in progress at g and below.
func Changing(g *Gate) int {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	seen := map[*commit]bool{}
	for _, b := range g.below() {
		b.mu.Lock()
		for c := range b.commits {
			seen[c] = true
		}
		b.mu.Unlock()
	}
	return len(seen)
}

// Gone reports whether g has left its tree.
func Gone(g *Gate) bool { return mode(g.word.Load())&gone != 0 }

// Composites counts the composites that g keeps.
func Composites(g *Gate) int {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return len(g.composites)
}

// EnterLate tries to begin a change with what was known of g before f ran.
func EnterLate(g *Gate, f func()) bool {
	word := g.word.Load()
	f()
	c := &commit{done: make(chan struct{})}
	if !g.enter(c, word) {
		return false
	}
	g.leave(c)
	return true
}

// MaxDerived is the bound for tests.
const MaxDerived = maxDerived

// BulkheadStats counts the calls inside a Bulkhead and the calls that wait for it.
type BulkheadStats struct{ Max, Inside, Waiting int }

// Stats returns the present counts of b.
func Stats(b *Bulkhead) BulkheadStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BulkheadStats{b.max, b.inside, b.waiting}
}

// NeedsOf returns the rights that an operation needs where it is, and at its target.
func NeedsOf(k OpKind) (at, target Rights) {
	return Rights(needs[k].at & noRights), Rights(needs[k].target & noRights)
}

// Ops is the number of operations.
const Ops = OpKind(len(needs))

package host

import "container/list"

// A crowd is a set of connections that have not been let in yet, grouped by origin. When
// there are too many, one has to go. Server.mu guards it.
type crowd struct {
	from map[origin]*group
	last uint64
}

// group is the connections of a crowd that have one origin, in the order they came.
type group struct {
	failed list.List // of *stranger that have shown an unknown locator
	others list.List
}

// stranger is a connection of a crowd.
type stranger struct {
	from     origin
	order    uint64          // the lower, the longer it has waited
	standing func() standing // called when one has to go; nil: it has sent nothing
	leave    func()          // must not block

	failed bool
	aside  bool          // it is in no crowd, but counts as a stranger; see asking
	at     *list.Element // nil: it is no longer in a crowd
}

// standing is what a stranger has done so far.
type standing uint8

const (
	silent   standing = iota // it has sent nothing
	heard                    // it has sent something, but nothing that lets it in
	speaking                 // it has sent something that was not read yet
)

func (g *group) len() int { return g.failed.Len() + g.others.Len() }

// oldest returns the order of the stranger that has waited longest.
func (g *group) oldest() uint64 {
	oldest := ^uint64(0)
	for _, l := range []*list.List{&g.failed, &g.others} {
		if e := l.Front(); e != nil {
			oldest = min(oldest, e.Value.(*stranger).order)
		}
	}
	return oldest
}

func (g *group) list(failed bool) *list.List {
	if failed {
		return &g.failed
	}
	return &g.others
}

func (c *crowd) add(s *stranger) {
	g := c.from[s.from]
	if g == nil {
		if c.from == nil {
			c.from = map[origin]*group{}
		}
		g = &group{}
		c.from[s.from] = g
	}
	c.last++
	s.order = c.last
	s.at = g.others.PushBack(s)
}

// remove removes s, if it is in the crowd.
func (c *crowd) remove(s *stranger) {
	if s.at == nil {
		return
	}
	g := c.from[s.from]
	g.list(s.failed).Remove(s.at)
	s.at = nil
	if g.len() == 0 {
		delete(c.from, s.from)
	}
}

// fail notes that s has shown an unknown locator.
func (c *crowd) fail(s *stranger) {
	if s.at == nil || s.failed {
		return
	}
	g := c.from[s.from]
	g.others.Remove(s.at)
	s.failed = true
	s.at = g.failed.PushBack(s)
}

func (c *crowd) len() (n int) {
	for _, g := range c.from {
		n += g.len()
	}
	return n
}

// each calls f with every stranger.
func (c *crowd) each(f func(*stranger)) {
	for _, g := range c.from {
		for _, l := range []*list.List{&g.failed, &g.others} {
			for e := l.Front(); e != nil; e = e.Next() {
				f(e.Value.(*stranger))
			}
		}
	}
}

// first returns the stranger that has waited longest, or nil.
func (c *crowd) first() (first *stranger) {
	c.each(func(s *stranger) {
		if first == nil || s.order < first.order {
			first = s
		}
	})
	return first
}

// looked is how many strangers goes looks at.
const looked = 8

// goes returns the stranger that has to go. It is of the largest group, so that a crowd
// from one origin harms no other origin. A stranger that has shown an unknown locator
// goes first, then one that has sent nothing, then one that has sent something. Among
// equals, roughly the one that has waited longest goes. goes returns nil when all that it
// looked at have sent something that was not read yet.
func (c *crowd) goes() *stranger {
	var most *group
	for _, g := range c.from {
		if most == nil || g.len() > most.len() || g.len() == most.len() && g.oldest() < most.oldest() {
			most = g
		}
	}
	if most == nil {
		return nil
	}
	if e := most.failed.Front(); e != nil {
		return e.Value.(*stranger)
	}
	var best *stranger
	for e, i := most.others.Front(), 0; e != nil && i < looked; e, i = e.Next(), i+1 {
		s := e.Value.(*stranger)
		if s.standing == nil {
			return s
		}
		switch s.standing() {
		case silent:
			return s
		case heard:
			if best == nil {
				best = s
			}
		}
	}
	return best
}

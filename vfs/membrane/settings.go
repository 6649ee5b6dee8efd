package membrane

import (
	"cmp"
	"strings"
)

// Settings keeps what a host sets at the gates of a tree, so that it holds after a restart. Its methods return when that
// is durable. They are called after the gates have been shut, and without a lock.
type Settings interface {
	// Revoked keeps that the capabilities with those ids were revoked, with everything shared from them; see
	// [Control.Keep].
	Revoked(ids []int64) error
	// Set keeps what the host refuses at path. The capability with that id stands at the path "".
	Set(id int64, path string, r Refusals) error
}

// Refusals is what a host refuses at a path. Hosts keep the numbers on disk.
type Refusals uint8

const (
	RefuseReads Refusals = 1 << iota
	RefuseChanges
	RefuseAll // for good
)

// Names returns words for what r refuses.
func (r Refusals) Names() (names []string) {
	for i, name := range []string{"reads", "changes", "all"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// NewKeptGate is [NewGateOn] for a tree whose settings s keeps. A [Control] of a gate in that tree waits for s.
func NewKeptGate(s Settings, c *Clock) *Gate {
	g := NewGateOn(c)
	g.tree.settings = s
	return g
}

// Keep says under which id, above 0, Settings keeps what is set at c's gate and at the routes below it. What was set before is
// not kept.
func (c *Control) Keep(id int64) {
	c.tree.mu.Lock()
	defer c.tree.mu.Unlock()
	c.kept = id
}

// Revoke is [Gate.Revoke]. It also returns when the revocation is kept.
func (c *Control) Revoke() error {
	if c.tree.settings == nil {
		return c.Gate.Revoke()
	}
	var ids []int64
	c.setAnd(revoked, 0, func() { ids = c.keptBelow() }) // whoever is told of the end may release a gate
	kept := c.keepRevoked(ids)
	return cmp.Or(c.Gate.Revoke(), kept)
}

// SetWritable is [Gate.SetWritable]. It also returns when the setting is kept. What cannot be kept stays locked.
func (c *Control) SetWritable(on bool) error {
	if err := c.switched(changes, on); err != nil || on {
		return err
	}
	return c.Drain()
}

// SetReadable is [Gate.SetReadable]. It also returns when the setting is kept. What cannot be kept stays locked.
func (c *Control) SetReadable(on bool) error { return c.switched(looks, on) }

// switched allows or refuses m. A gate is shut before that is kept, and opened afterwards.
func (c *Control) switched(m mode, on bool) error {
	c.tree.keeping.Lock()
	defer c.tree.keeping.Unlock()
	if on {
		if err := c.keepOwn(0, m); err != nil {
			return err
		}
		c.set(0, m)
		return nil
	}
	c.set(m, 0)
	return c.keepOwn(m, 0)
}

// keepOwn keeps what c's gate refuses by itself once add and drop are set.
func (c *Control) keepOwn(add, drop mode) error {
	t := c.tree
	if t.settings == nil {
		return nil
	}
	t.mu.Lock()
	own := c.own&^drop | add
	id, path := c.standing()
	t.mu.Unlock()
	if id == 0 {
		return nil
	}
	return t.settings.Set(id, path, refusals(own))
}

// keptBelow returns the ids of what is kept at g and below it. Needs tree.mu.
func (g *Gate) keptBelow() (ids []int64) {
	for _, at := range g.below() {
		if at.kept != 0 {
			ids = append(ids, at.kept)
		}
	}
	return ids
}

// keepRevoked keeps that c's gate was revoked, and with it the capabilities with those ids.
func (c *Control) keepRevoked(ids []int64) error {
	t := c.tree
	var err error
	if c.name != "" { // a route: what it leads to is no capability of its own
		t.keeping.Lock()
		err = c.keepOwn(revoked, 0)
		t.keeping.Unlock()
	}
	if len(ids) == 0 {
		return err
	}
	return cmp.Or(err, t.settings.Revoked(ids))
}

// standing returns the id of the capability that g belongs to, and g's path from it. The id is 0 if
// nothing is kept of that capability. Needs tree.mu.
func (g *Gate) standing() (id int64, path string) {
	top := g
	for top.name != "" && len(top.parents) > 0 {
		top = top.parents[0]
	}
	return top.kept, strings.TrimPrefix(strings.TrimPrefix(g.origin, top.origin), "/")
}

// Refuse sets at the path below c what was kept of it. It keeps nothing.
func (c *Control) Refuse(path string, r Refusals) {
	at := c.Gate
	if path != "" {
		for i, name := range strings.Split(path, "/") {
			next := at.child(name)
			if i > 0 {
				at.uncontrol()
			}
			at = next
		}
		defer at.uncontrol() // it stays, since it refuses something
	}
	at.set(r.mode(), 0)
}

// refusals returns what a host has set in m.
func refusals(m mode) (r Refusals) {
	if m&looks != 0 {
		r |= RefuseReads
	}
	if m&changes != 0 {
		r |= RefuseChanges
	}
	if m&revoked != 0 {
		r |= RefuseAll
	}
	return r
}

func (r Refusals) mode() (m mode) {
	if r&RefuseReads != 0 {
		m |= looks
	}
	if r&RefuseChanges != 0 {
		m |= changes
	}
	if r&RefuseAll != 0 {
		m |= revoked
	}
	return m
}

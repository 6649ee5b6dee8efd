package membrane

import (
	"context"
	"slices"
	"sync"

	"capd/vfs"
)

// Control is the host's handle on a capability: its gate, and the routes below it.
// Whoever holds it decides what guests may do through that gate, so it is never given
// to them. Release it when done; its settings stay.
type Control struct {
	*Gate
	Kind vfs.Kind // FileKind or DirKind

	dir    vfs.Dir // the inner directory; nil for a file
	node   *shared // of dir
	guards *guardSet
	path   string
	rules  *rules // of the guards, at path
	fixed  bool   // nothing can ever be changed through the node
	once   sync.Once

	counted bool // as an open node
}

// Writable reports what SetWritable set here (own) and whether changes are possible now
// (effective). The latter also depends on the gates above and on the node itself, which
// may be read-only by attenuation or lie in a store that never changes.
func (c *Control) Writable() (own, effective bool) {
	own, effective = c.Gate.Writable()
	return own, effective && !c.fixed && (c.dir == nil || !vfs.IsImmutable(c.dir))
}

// Child controls the route to name below. While it is controlled, neither it nor a
// directory on the way to it can be removed, renamed or overwritten through this gate.
// Child answers notFound for a name that List does not yield, byte for byte, and notDir
// on the control of a file.
func (c *Control) Child(ctx context.Context, name string) (*Control, error) {
	if c.dir == nil {
		return nil, vfs.Errorf(vfs.NotDir, "this controls a file")
	}
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	path := vfs.Join(c.path, name)
	r := c.guards.current(c.rules, c.path).step(name)
	if c.guards.hides(r) {
		return nil, vfs.NotFound
	}
	var n vfs.Node
	err := c.guards.within(ctx, func(ctx context.Context) (err error) {
		if err = listed(ctx, c.dir, name); err == nil {
			n, err = c.dir.Lookup(ctx, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	child := &Control{Kind: vfs.FileKind, guards: c.guards, path: path, rules: r, fixed: c.fixed || vfs.IsImmutable(n)}
	switch n := n.(type) {
	case vfs.Dir:
		child.Kind, child.dir, child.node = vfs.DirKind, n, newShared(n)
	default:
		n.Close()
	}
	child.Gate = c.Gate.child(name)
	return child, nil
}

// listed answers notFound unless d lists name byte for byte. A store that folds case
// would otherwise find more names than there are routes.
func listed(ctx context.Context, d vfs.Dir, name string) error {
	for e, err := range d.List(ctx) {
		switch {
		case err != nil:
			return err
		case e.Name == name:
			return nil
		}
	}
	return vfs.NotFound
}

// Release gives up the control. Its settings stay.
func (c *Control) Release() {
	c.once.Do(func() {
		if c.node != nil {
			c.node.release()
		}
		if c.counted {
			c.Gate.Release()
			meters{c.Gate.meter, c.guards.meters}.close(c.path)
		} else {
			c.Gate.uncontrol()
		}
	})
}

// ForGuest returns another reference to the same control for a guest to hold. Like c it
// counts as an open node. It answers limit.
func (c *Control) ForGuest() (*Control, error) {
	if err := (meters{c.Gate.meter, c.guards.meters}).open(c.path); err != nil {
		return nil, err
	}
	d := c.Dup()
	d.counted = true
	return d, nil
}

// Dup returns another reference to the same control for the host.
func (c *Control) Dup() *Control {
	d := &Control{Gate: c.Gate, Kind: c.Kind, dir: c.dir, guards: c.guards, path: c.path, rules: c.rules, fixed: c.fixed}
	c.Gate.retain()
	if c.node != nil {
		d.node = c.node.retain()
	}
	return d
}

// At reports whether n is behind c's own gate, without another one below it. n is in the same tree.
func (c *Control) At(n vfs.Node) bool { return gateOf(n) == c.Gate }

// Below reports whether c's gate is that of n, or was derived from it. n is in the same tree.
func (c *Control) Below(n vfs.Node) bool {
	top := gateOf(n)
	if top == nil || top.tree != c.tree {
		return false
	}
	c.tree.mu.Lock()
	defer c.tree.mu.Unlock()
	return slices.Contains(c.Gate.above(), top)
}

// gateOf returns the gate that n was derived from, or nil for a node behind no membrane.
func gateOf(n vfs.Node) *Gate {
	switch v := n.(type) {
	case *dirView:
		return v.base
	case *fileView:
		return v.base
	}
	return nil
}

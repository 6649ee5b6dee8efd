package namespace

import (
	"cmp"

	"capd/vfs"
	"capd/vfs/membrane"
)

// plan lists what is to be moved, and checks that it may be moved.
func (c *carrier) plan(from, to vfs.If) error {
	n, err := c.src.dir.Lookup(c.ctx, c.src.name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return cmp.Or(from.Check(false, vfs.Version{}), err)
	}
	if err != nil {
		return err
	}
	defer n.Close()
	f, isFile := n.(vfs.File)
	switch {
	case !isFile && !from.IsZero():
		return vfs.Errorf(vfs.Invalid, "only a file has a version; drop the condition")
	case isFile && !from.IsZero():
		v, err := vfs.VersionOf(c.ctx, f)
		if err = cmp.Or(err, from.Check(true, v)); err != nil {
			return err
		}
	}
	if c.top, err = c.describe(n, c.src.name, 1); err != nil {
		return err
	}
	c.top.is = from.Is
	c.want = vfs.If{Absent: true}
	if to.Is.IsZero() {
		return nil
	}
	c.want = to
	return c.replaces(f, to)
}

// replaces notes the file that the move will replace. f is nil for a node that is not a
// file.
func (c *carrier) replaces(f vfs.File, to vfs.If) error {
	n, err := c.dst.dir.Lookup(c.ctx, c.dst.name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return to.Check(false, vfs.Version{})
	}
	if err != nil {
		return err
	}
	defer n.Close()
	there, ok := n.(vfs.File)
	if !ok || f == nil {
		return vfs.Exists
	}
	is, err := vfs.VersionOf(c.ctx, there)
	if err = cmp.Or(err, to.Check(true, is)); err != nil {
		return err
	}
	if mine, err := vfs.VersionOf(c.ctx, f); err != nil {
		return err
	} else if mine == is {
		return vfs.Errorf(vfs.Exists, "the same content is there already; remove one of the two")
	}
	info, err := there.Stat(c.ctx)
	if err != nil {
		return err
	}
	c.over.exec = info.Exec
	c.over.content, err = vfs.Open(c.ctx, there)
	return err
}

// describe describes n and everything below it.
func (c *carrier) describe(n vfs.Node, name string, depth int) (*carriedNode, error) {
	l := &carriedNode{name: name, kind: vfs.KindOf(n)}
	if c.count++; c.count > maxCarried {
		return nil, vfs.Errorf(vfs.Limit, "it has more than %d nodes, too many for one move between trees; move its parts", maxCarried)
	}
	if depth > vfs.MaxDepth {
		return nil, vfs.ErrTooDeep
	}
	switch n := n.(type) {
	case vfs.Link:
		if c.src.noLinks || c.dst.noLinks {
			return nil, vfs.ErrNoLinks
		}
		var err error
		l.text, err = n.Target(c.ctx)
		return l, err
	case vfs.Dir:
		names, err := c.names(n)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			below, err := n.Lookup(c.ctx, name)
			if err != nil {
				return nil, err
			}
			held, err := c.describe(below, name, depth+1)
			below.Close()
			if err != nil {
				return nil, err
			}
			l.holds = append(l.holds, held)
		}
	}
	return l, nil
}

// names returns the names in d, in order. It answers denied where policy hides some of
// them: those could neither be moved nor stay.
func (c *carrier) names(d vfs.Dir) ([]string, error) {
	var names []string
	for e, err := range d.List(c.ctx) {
		if err != nil {
			return nil, err
		}
		if names = append(names, e.Name); len(names) > maxCarried {
			break
		}
	}
	some, err := membrane.Conceals(c.ctx, d)
	if err == nil && some {
		place, _ := membrane.PlaceOf(d)
		err = &vfs.Error{Code: vfs.Denied, Msg: "it cannot be moved to another tree: policy decides about what it may hold; move its files", Cause: &membrane.Disclosure{Path: place.Path}}
	}
	return names, err
}

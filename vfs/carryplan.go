package vfs

import (
	"cmp"
)

// plan lists what is to be moved, and checks that it may be moved.
func (c *carrier) plan(from, to If) error {
	n, err := c.src.dir.Lookup(c.ctx, c.src.name)
	if CodeOf(err) == NotFound {
		return cmp.Or(from.Check(false, Version{}), err)
	}
	if err != nil {
		return err
	}
	defer n.Close()
	f, isFile := n.(File)
	switch {
	case !isFile && !from.IsZero():
		return Errorf(Invalid, "only a file has a version; drop the condition")
	case isFile && !from.IsZero():
		v, err := VersionOf(c.ctx, f)
		if err = cmp.Or(err, from.Check(true, v)); err != nil {
			return err
		}
	}
	if c.top, err = c.describe(n, c.src.name, 1); err != nil {
		return err
	}
	c.top.is = from.Is
	c.want = If{Absent: true}
	if to.Is.IsZero() {
		return nil
	}
	c.want = to
	return c.replaces(f, to)
}

// replaces notes the file that the move will replace. f is nil for a node that is not a
// file.
func (c *carrier) replaces(f File, to If) error {
	n, err := c.dst.dir.Lookup(c.ctx, c.dst.name)
	if CodeOf(err) == NotFound {
		return to.Check(false, Version{})
	}
	if err != nil {
		return err
	}
	defer n.Close()
	there, ok := n.(File)
	if !ok || f == nil {
		return Exists
	}
	is, err := VersionOf(c.ctx, there)
	if err = cmp.Or(err, to.Check(true, is)); err != nil {
		return err
	}
	if mine, err := VersionOf(c.ctx, f); err != nil {
		return err
	} else if mine == is {
		return Errorf(Exists, "the same content is there already; remove one of the two")
	}
	info, err := there.Stat(c.ctx)
	if err != nil {
		return err
	}
	c.over.exec = info.Exec
	c.over.content, err = Open(c.ctx, there)
	return err
}

// describe describes n and everything below it.
func (c *carrier) describe(n Node, name string, depth int) (*carriedNode, error) {
	l := &carriedNode{name: name, kind: KindOf(n)}
	if c.count++; c.count > maxCarried {
		return nil, Errorf(Limit, "it has more than %d nodes, too many for one move between trees; move its parts", maxCarried)
	}
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	switch n := n.(type) {
	case Link:
		if c.src.noLinks || c.dst.noLinks {
			return nil, ErrNoLinks
		}
		var err error
		l.text, err = n.Target(c.ctx)
		return l, err
	case Dir:
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
func (c *carrier) names(d Dir) ([]string, error) {
	var names []string
	for e, err := range d.List(c.ctx) {
		if err != nil {
			return nil, err
		}
		if names = append(names, e.Name); len(names) > maxCarried {
			break
		}
	}
	some, err := Conceals(c.ctx, d)
	if err == nil && some {
		place, _ := PlaceOf(d)
		err = &Error{Code: Denied, Msg: "it cannot be moved to another tree: policy decides about what it may hold; move its files", Cause: &Disclosure{place.Path}}
	}
	return names, err
}

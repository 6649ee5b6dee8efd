package copier

import (
	"context"

	"capd/vfs"
)

var errSpecial = vfs.Errorf(vfs.NotRegular, "it is neither file, directory nor link; leave it out")

// list copies the entries of d, and releases d.
func (c *copying) list(d *dir) {
	defer c.release(d)
	listed := 0
	for e, err := range d.from.List(c.ctx) {
		if err != nil {
			c.fail(d.path, c.unlisted(d, err))
			return
		}
		if listed++; listed > c.o.Entries { // also of what is left out, for a list without an end
			c.fail("", c.o.TooMany())
			return
		}
		path := vfs.Join(d.path, e.Name)
		if c.fail(path, c.entry(d, e, path)); c.ctx.Err() != nil {
			return
		}
	}
	if c.o.Listed != nil {
		c.fail(d.path, c.o.Listed(c.ctx, d.from, d.path))
	}
}

func (c *copying) unlisted(d *dir, err error) error {
	if d.in == nil {
		return err
	}
	return c.skip(Unread{Path: d.path, Err: err, Partly: true})
}

// skip returns nil if an entry that cannot be copied is left out.
func (c *copying) skip(u Unread) error {
	if c.o.Skip == nil {
		return u.Err
	}
	return c.o.Skip(u)
}

func (c *copying) entry(d *dir, e vfs.Entry, path string) error {
	switch err := vfs.CheckName(e.Name); {
	case d.depth > c.o.Depth:
		return c.o.TooDeep()
	case err != nil: // of a Dir that somebody else serves
		return c.skip(Unread{Path: path, Err: err})
	case c.o.Exclude != nil && c.o.Exclude(path):
		return nil
	case e.Kind == vfs.Other:
		return c.skip(Unread{Path: path, Err: errSpecial})
	case e.Kind != vfs.FileKind || d.inline:
		return c.node(d, e.Name, path, d.inline)
	}
	d.refs.Add(1)
	select {
	case c.jobs <- job{d, e.Name}:
	case <-c.ctx.Done():
		c.release(d)
	}
	return nil
}

// node copies the entry called name in d, whatever it is now.
func (c *copying) node(d *dir, name, path string, inline bool) error {
	n, err := d.from.Lookup(c.ctx, name)
	if err != nil {
		return c.skip(Unread{Path: path, Err: err})
	}
	switch n := n.(type) {
	case vfs.Dir:
		return c.dir(&dir{in: d, from: n, name: name, path: path, depth: d.depth + 1, inline: inline})
	case vfs.File:
		defer n.Close()
		return c.file(d, n, name, path)
	case vfs.Link:
		defer n.Close()
		return c.link(d, n, name, path)
	}
	n.Close()
	return c.skip(Unread{Path: path, Err: errSpecial})
}

// dir copies a directory. It closes d.from.
func (c *copying) dir(d *dir) error {
	if err := c.make(d); err != nil {
		d.from.Close()
		return err
	}
	if d.to == nil {
		d.from.Close()
		return nil
	}
	d.in.refs.Add(1)
	d.refs.Store(1)
	c.list(d)
	return nil
}

// make makes d's sink, which is nil if d is left out.
func (c *copying) make(d *dir) (err error) {
	info := vfs.Info{Kind: vfs.DirKind}
	if c.o.Times {
		if info, err = d.from.Stat(c.ctx); err != nil {
			return c.skip(Unread{Path: d.path, Err: err})
		}
	}
	if err := c.reserve(1, 0); err != nil {
		return err
	}
	d.to, err = d.in.to.Mkdir(c.ctx, d.name, info)
	return err
}

func (c *copying) link(d *dir, l vfs.Link, name, path string) error {
	target, err := l.Target(c.ctx)
	if err == nil && c.o.Link != nil {
		err = c.o.Link(c.ctx, path, target)
	}
	if err != nil {
		return c.skip(Unread{Path: path, Err: err})
	}
	if err := c.reserve(1, 0); err != nil {
		return err
	}
	if err := d.to.Link(c.ctx, name, target); err != nil {
		return err
	}
	c.copied(Progress{Links: 1})
	return nil
}

// Within returns an Options.Link that allows links within d, the tree that is copied.
// It answers outside for a link that leads out of it, as far as the links that are
// there now tell.
func Within(d vfs.Dir) func(ctx context.Context, path, target string) error {
	return func(ctx context.Context, path, target string) error {
		out, err := vfs.LeadsOut(ctx, d, path, target)
		if err == nil && out {
			err = vfs.Outside
		}
		return err
	}
}

package faultfs

import (
	"context"
	"io"
	"iter"

	"capd/vfs"
)

// New returns inner with the faults of plan. A nil plan has none. Every node reached
// through it has the plan's faults too. Its nodes implement every optional interface of
// package vfs, and answer what inner answers there.
//
// Nothing here embeds what it wraps, so a new method does not compile until it has its
// faults.
func New(inner vfs.Dir, plan *Plan) vfs.Dir {
	if plan == nil {
		plan = new(Plan)
	}
	return &dir{node[vfs.Dir]{inner, plan}}
}

var (
	_ vfs.Dir        = (*dir)(nil)
	_ vfs.Symlinker  = (*dir)(nil)
	_ vfs.Installer  = (*dir)(nil)
	_ vfs.DirStager  = (*dir)(nil)
	_ vfs.Identifier = (*dir)(nil)
	_ vfs.File       = (*file)(nil)
	_ vfs.Opener     = (*file)(nil)
	_ vfs.Versioner  = (*file)(nil)
	_ vfs.Appender   = (*file)(nil)
	_ vfs.Attributer = (*file)(nil)
	_ vfs.Link       = (*link)(nil)
	_ vfs.Content    = (*content)(nil)
)

// wrap returns n with the plan's faults.
func (p *Plan) wrap(n vfs.Node) (vfs.Node, error) {
	switch n := n.(type) {
	case vfs.Dir:
		return &dir{node[vfs.Dir]{n, p}}, nil
	case vfs.File:
		return &file{node[vfs.File]{n, p}}, nil
	case vfs.Link:
		return &link{node[vfs.Link]{n, p}}, nil
	}
	return nil, vfs.Errorf(vfs.Internal, "a node is neither a directory, a file nor a link")
}

// result returns what do returns, unless op fails.
func result[T any](ctx context.Context, p *Plan, op Op, do func(context.Context) (T, error)) (T, error) {
	return opened(ctx, p, op, do, func(T) {})
}

// opened is result for what has to be dropped if the caller does not get it.
func opened[T any](ctx context.Context, p *Plan, op Op, do func(context.Context) (T, error), drop func(T)) (T, error) {
	var got, none T
	made := false
	err := p.around(ctx, op, func(ctx context.Context) (err error) {
		got, err = do(ctx)
		made = err == nil
		return err
	})
	if err == nil {
		return got, nil
	}
	if made {
		drop(got)
	}
	return none, err
}

func closed[T io.Closer](c T) { c.Close() }

func (p *Plan) close(c io.Closer) error {
	return p.around(context.Background(), Close, func(context.Context) error { return c.Close() })
}

// node is what nodes of every kind have in common.
type node[N vfs.Node] struct {
	inner N
	plan  *Plan
}

func (n *node[N]) Stat(ctx context.Context) (vfs.Info, error) {
	return result(ctx, n.plan, Stat, n.inner.Stat)
}
func (n *node[N]) Close() error { return n.plan.close(n.inner) }

type dir struct{ node[vfs.Dir] }

func (d *dir) Identity(ctx context.Context) (string, error) {
	return result(ctx, d.plan, Identity, func(ctx context.Context) (string, error) { return vfs.Identity(ctx, d.inner) })
}

func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := opened(ctx, d.plan, Lookup, func(ctx context.Context) (vfs.Node, error) { return d.inner.Lookup(ctx, name) }, closed)
	if err != nil {
		return nil, err
	}
	return d.plan.wrap(n)
}

func (d *dir) Create(ctx context.Context, name string) (vfs.File, error) {
	f, err := opened(ctx, d.plan, Create, func(ctx context.Context) (vfs.File, error) { return d.inner.Create(ctx, name) }, closed)
	if err != nil {
		return nil, err
	}
	return &file{node[vfs.File]{f, d.plan}}, nil
}

func (d *dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	made, err := opened(ctx, d.plan, Mkdir, func(ctx context.Context) (vfs.Dir, error) { return d.inner.Mkdir(ctx, name) }, closed)
	if err != nil {
		return nil, err
	}
	return &dir{node[vfs.Dir]{made, d.plan}}, nil
}

func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		stopped := false
		err := d.plan.around(ctx, List, func(ctx context.Context) error {
			for e, err := range d.inner.List(ctx) {
				if err != nil {
					return err
				}
				if err := d.plan.at(Entry, Before); err != nil {
					return err
				}
				if !yield(e, nil) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(vfs.Entry{}, err)
		}
	}
}

func (d *dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return result(ctx, d.plan, Replace, func(ctx context.Context) (vfs.Version, error) {
		return d.inner.Replace(ctx, name, r, c)
	})
}

func (d *dir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return result(ctx, d.plan, Install, func(ctx context.Context) (vfs.Version, error) {
		return vfs.Install(ctx, d.inner, name, r, exec, c)
	})
}

func (d *dir) Symlink(ctx context.Context, name, target string) error {
	return d.plan.around(ctx, Symlink, func(ctx context.Context) error { return vfs.Symlink(ctx, d.inner, name, target) })
}

func (d *dir) Remove(ctx context.Context, name string, c vfs.If) error {
	return d.plan.around(ctx, Remove, func(ctx context.Context) error { return d.inner.Remove(ctx, name, c) })
}

// Rename unwraps a dst of the same plan. Any other dst goes to the store as it is.
func (d *dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if other, ok := dst.(*dir); ok && other.plan == d.plan {
		dst = other.inner
	}
	return d.plan.around(ctx, Rename, func(ctx context.Context) error {
		return d.inner.Rename(ctx, name, dst, newName, from, to)
	})
}

func (d *dir) StageDir(ctx context.Context, name string) (vfs.StagedDir, error) {
	s, err := opened(ctx, d.plan, StageDir, func(ctx context.Context) (vfs.StagedDir, error) {
		return vfs.StageDir(ctx, d.inner, name)
	}, func(s vfs.StagedDir) {
		s.Drop(ctx)
		s.Close()
	})
	if err != nil {
		return nil, err
	}
	return &stagedDir{dir{node[vfs.Dir]{s, d.plan}}, s}, nil
}

type stagedDir struct {
	dir
	inner vfs.StagedDir
}

func (s *stagedDir) Place(ctx context.Context) error { return s.plan.around(ctx, Place, s.inner.Place) }

func (s *stagedDir) Drop(ctx context.Context) vfs.Effect {
	_ = s.plan.at(Drop, Before)
	e := s.inner.Drop(ctx)
	_ = s.plan.at(Drop, After)
	return e
}

type file struct{ node[vfs.File] }

func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	err = f.plan.around(ctx, ReadAt, func(ctx context.Context) error {
		n, err = f.inner.ReadAt(ctx, p, off)
		return err
	})
	return n, err
}

func (f *file) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (n int, err error) {
	err = f.plan.around(ctx, WriteAt, func(ctx context.Context) error {
		n, err = f.inner.WriteAt(ctx, p, off, c)
		return err
	})
	return n, err
}

func (f *file) Truncate(ctx context.Context, size int64, c vfs.If) error {
	return f.plan.around(ctx, Truncate, func(ctx context.Context) error { return f.inner.Truncate(ctx, size, c) })
}

func (f *file) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	return f.plan.around(ctx, Attributes, func(ctx context.Context) error { return vfs.SetAttributes(ctx, f.inner, a, c) })
}

func (f *file) Sync(ctx context.Context) error { return f.plan.around(ctx, Sync, f.inner.Sync) }

func (f *file) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	err = f.plan.around(ctx, Append, func(ctx context.Context) error {
		off, err = vfs.Append(ctx, f.inner, p, c)
		return err
	})
	return off, err
}

func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	return result(ctx, f.plan, Replace, func(ctx context.Context) (vfs.Version, error) {
		return f.inner.Replace(ctx, r, c)
	})
}

func (f *file) Version(ctx context.Context) (vfs.Version, error) {
	return result(ctx, f.plan, Version, func(ctx context.Context) (vfs.Version, error) {
		return vfs.VersionOf(ctx, f.inner)
	})
}

func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	c, err := opened(ctx, f.plan, Open, func(ctx context.Context) (vfs.Content, error) { return vfs.Open(ctx, f.inner) }, closed)
	if err != nil {
		return nil, err
	}
	return &content{c, f.plan}, nil
}

type content struct {
	inner vfs.Content
	plan  *Plan
}

func (c *content) Size() int64  { return c.inner.Size() }
func (c *content) Close() error { return c.plan.close(c.inner) }

func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	err = c.plan.around(context.Background(), Content, func(context.Context) error {
		n, err = c.inner.ReadAt(p, off)
		return err
	})
	return n, err
}

type link struct{ node[vfs.Link] }

func (l *link) Target(ctx context.Context) (string, error) {
	return result(ctx, l.plan, Target, l.inner.Target)
}

// Watch implements vfs.Watcher. It has no faults.
func (d *dir) Watch(ctx context.Context, w vfs.Watch) (vfs.Watching, error) {
	return vfs.WatchIn(ctx, d.inner, w)
}

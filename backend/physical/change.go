package physical

import (
	"context"

	"capd/vfs"
)

// attempts bounds how often a change is prepared again because another program changed
// the same name before the commit.
const attempts = 8

// commit prepares a change and commits it. prepare returns what is staged, and the most
// by which the change may grow the store. change gets that as most. It returns again when
// it would grow the store by more, or when what was prepared for is no longer there.
// commit then starts again. If change returns again or an error, it must have changed
// nothing.
func commit(ctx context.Context, prepare func() (vfs.Staged, error), change func(most vfs.Effect) (e vfs.Effect, again bool, err error)) error {
	for range attempts {
		ready, err := prepare()
		if err == nil {
			err = vfs.Ready(ctx, ready)
		}
		if err != nil {
			return err
		}
		var again bool
		err = vfs.Commit(ctx, ready.Grows, func() (e vfs.Effect, err error) {
			e, again, err = change(ready.Grows)
			if again && err == nil {
				err = errKeepsChanging
			}
			return e, err
		})
		if !again {
			return err
		}
	}
	return errKeepsChanging
}

// Create makes an empty file.
func (d *Dir) Create(ctx context.Context, name string) (vfs.File, error) {
	if err := d.mayMake(ctx, name); err != nil {
		return nil, err
	}
	err := d.make(ctx, name, func(dir directory) error {
		f, err := dir.create(name, 0o666)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		return nil, err
	}
	return &File{spot: d.spot(name)}, nil
}

// Mkdir makes an empty directory.
func (d *Dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	if err := d.mayMake(ctx, name); err != nil {
		return nil, err
	}
	var made *Dir
	err := d.make(ctx, name, func(dir directory) error {
		err := dir.mkdir(name, 0o777)
		if err == nil {
			made, err = d.child(dir, name)
		}
		if err == nil {
			d.s.noteMade(made.at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Symlink implements vfs.Symlinker.
func (d *Dir) Symlink(ctx context.Context, name, target string) error {
	if err := d.mayMake(ctx, name); err != nil {
		return err
	}
	if err := vfs.CheckTarget(target); err != nil {
		return err
	}
	return d.make(ctx, name, func(dir directory) error { return dir.symlink(target, name) })
}

func (d *Dir) mayMake(ctx context.Context, name string) error {
	if err := d.changeable(ctx); err != nil {
		return err
	}
	if err := checkNew(name); err != nil {
		return err
	}
	return d.checkDepth(name)
}

// make commits the making of one node, called name, in d.
func (d *Dir) make(ctx context.Context, name string, do func(directory) error) error {
	changing := changing{s: d.s}
	defer changing.drop()
	one := vfs.Effect{Nodes: 1}
	if vfs.NeedsReady(ctx) {
		if err := d.vacant(ctx, name); err != nil {
			return err
		}
	}
	if err := vfs.Ready(ctx, vfs.Staged{Grows: one}); err != nil {
		return err
	}
	err := vfs.Commit(ctx, one, func() (vfs.Effect, error) {
		defer d.s.lock(vfs.Join(d.at.path, name))()
		dir, err := d.s.enter(d.at)
		if err != nil {
			return vfs.Effect{}, err
		}
		defer d.s.leave(dir)
		if err := changing.of(dir, d.at); err != nil {
			return vfs.Effect{}, err
		}
		if err := do(dir); err != nil {
			return vfs.Effect{}, gone(err)
		}
		return one, nil
	})
	if err != nil {
		return err
	}
	return changing.sync(ctx)
}

// vacant answers exists when something is called name.
func (d *Dir) vacant(ctx context.Context, name string) error {
	was, err := d.seen(ctx, name, vfs.If{})
	if err == nil && was.exists {
		err = vfs.At("", vfs.Exists)
	}
	return err
}

// seen looks at name in d. If c is on a version it finds out the version.
func (d *Dir) seen(ctx context.Context, name string, c vfs.If) (seen, error) {
	dir, err := d.s.enter(d.at)
	if err != nil {
		return seen{}, err
	}
	a, err := dir.lstat(name)
	missing := isNotExist(err)
	err = absent(dir, d.at, err)
	d.s.leave(dir)
	if missing && vfs.CodeOf(err) == vfs.NotFound {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, err
	}
	if c.Is.IsZero() || a.kind != vfs.FileKind {
		return seen{exists: true, attr: a}, nil
	}
	v, err := d.s.settledVersionAt(ctx, d.at, name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return seen{}, nil
	}
	return v, err
}

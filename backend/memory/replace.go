package memory

import (
	"context"
	"io"

	"capd/meter"
	"capd/vfs"
)

// Replace implements vfs.Dir. It reads and stages at most what the store may hold, and
// answers quota for more.
func (d *dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, nil, c)
}

// Install implements vfs.Installer.
func (d *dir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, &exec, c)
}

func (d *dir) replace(ctx context.Context, name string, r io.Reader, exec *bool, c vfs.If) (vfs.Version, error) {
	if err := vfs.CheckName(name); err != nil {
		return vfs.Version{}, err
	}
	rep := replacement{store: d.at.store, name: name, exec: exec, c: c, find: func() (*inode, *inode, error) {
		here, err := d.here()
		if err != nil {
			return nil, nil, err
		}
		return here, here.children[name], nil
	}}
	return rep.run(ctx, r)
}

// Replace implements vfs.File.
func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	rep := replacement{store: f.in.store, name: f.name, c: c, find: func() (*inode, *inode, error) {
		n, err := f.node()
		if err != nil {
			return nil, nil, err
		}
		return n.parent, n, nil
	}}
	return rep.run(ctx, r)
}

// replacement is one replacement of a whole file.
type replacement struct {
	store *Store
	name  string
	exec  *bool // nil keeps the executable bit
	c     vfs.If
	find  func() (here, n *inode, err error) // returns the present place; n is nil when it is empty
	fresh *blob                              // nil until all is staged
}

func (rep *replacement) run(ctx context.Context, r io.Reader) (vfs.Version, error) {
	s := rep.store
	// Check once before reading from the reader, which may be slow and large.
	if err := s.foresee(ctx, rep.check); err != nil {
		return vfs.Version{}, err
	}
	st := staging{store: s, who: meter.Of(ctx)}
	defer st.release()
	staged, err := st.read(ctx, r, rep.oldSize)
	if err != nil {
		return vfs.Version{}, err
	}
	rep.fresh = staged
	version := *staged.version.Load() // before anybody can write to it in place
	if err := s.change(ctx, rep.check); err != nil {
		return vfs.Version{}, err
	}
	return version, nil
}

// check checks whether the replacement is possible, and returns the step. Needs
// store.mu.
func (rep *replacement) check(tries int) (step, error) {
	here, n, err := rep.find()
	if err != nil {
		return step{}, err
	}
	if err := replaceable(rep.name, n, rep.c, tries); err != nil {
		return step{}, err
	}
	fresh := rep.fresh
	switch {
	case fresh == nil && n == nil:
		return step{grows: vfs.Effect{Nodes: 1}}, nil
	case fresh == nil:
		return step{}, nil
	case n == nil:
		return step{grows: vfs.Effect{Bytes: fresh.size, Nodes: 1}, content: stagedBlob{fresh}, needs: true, apply: func() {
			n := newInode(vfs.FileKind)
			n.data = fresh
			rep.dress(n)
			here.put(rep.name, n)
		}}, nil
	}
	return step{grows: vfs.Effect{Bytes: fresh.size - n.data.size}, was: n.info(), content: stagedBlob{fresh}, needs: true, apply: func() {
		rep.store.detach(n.data)
		n.data = fresh
		n.modified = nowMs()
		rep.dress(n)
	}}, nil
}

func (rep *replacement) dress(n *inode) {
	if rep.exec != nil {
		n.exec = *rep.exec
	}
}

// oldSize returns the size of the file that is replaced, 0 if there is none. Needs
// store.mu.
func (rep *replacement) oldSize() int64 {
	if _, n, err := rep.find(); err == nil && n != nil && n.kind == vfs.FileKind {
		return n.data.size
	}
	return 0
}

// replaceable checks whether n, which may be nil, can be replaced by a file. Needs
// store.mu.
func replaceable(name string, n *inode, c vfs.If, tries int) error {
	switch {
	case n == nil:
		if err := vfs.CheckNewName(name); err != nil {
			return err
		}
	case n.kind == vfs.DirKind:
		return vfs.IsDir
	case n.kind != vfs.FileKind:
		return vfs.NotRegular
	}
	return meets(c, n, tries)
}

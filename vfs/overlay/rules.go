package overlay

import (
	"context"
	"io"

	"capd/vfs"
)

// Rules say what the lower tree could not take. Each method returns the error of the
// change that it forbids. It must not call the overlay.
type Rules interface {
	// CheckName is called before a node gets a name.
	CheckName(name string, kind vfs.Kind) error
	// CheckSize is called before a file becomes that many bytes long.
	CheckSize(size int64) error
	// CheckDepth is called before a directory is made whose path has depth names.
	CheckDepth(depth int) error
	// CheckDir is called before a directory of the lower tree moves or is removed, and
	// before its entries change.
	CheckDir(lower vfs.Dir) error
	// CheckEmpty is called before a directory of the lower tree is removed. It shows no
	// entries.
	CheckEmpty(lower vfs.Dir) error
}

// checkNew checks a new name.
func (o *Overlay) checkNew(name string, kind vfs.Kind) error {
	err := vfs.CheckNewName(name)
	if err == nil && o.rules != nil {
		err = o.rules.CheckName(name, kind)
	}
	return err
}

func (o *Overlay) checkSize(size int64) error {
	if o.rules == nil {
		return nil
	}
	return o.rules.CheckSize(size)
}

// checkDepth checks that a directory may be made in d.
func (d *dir) checkDepth() error {
	if d.o.rules == nil {
		return nil
	}
	depth := 1
	for p := d.in; p.parent != nil; p = p.parent {
		depth++
	}
	return d.o.rules.CheckDepth(depth)
}

// bounded returns r, but an error in place of what makes a file too long.
func (o *Overlay) bounded(r io.Reader) io.Reader {
	if o.rules == nil {
		return r
	}
	return &boundedReader{r: r, check: o.rules.CheckSize}
}

type boundedReader struct {
	r     io.Reader
	size  int64
	check func(size int64) error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.size += int64(n)
	if over := b.check(b.size); over != nil {
		return 0, over
	}
	return n, err
}

// checkDir checks that entries of the lower directory at path may change.
func (r *ref) checkDir(ctx context.Context, path string) error {
	if r.o.rules == nil {
		return nil
	}
	n, err := r.window.at(ctx, r.o, path)
	d, ok := n.(vfs.Dir)
	if err != nil || !ok { // what changes it will notice
		return nil
	}
	return r.o.rules.CheckDir(d)
}

// checkLeave checks that the node at s may move, or be removed.
func (s *spot) checkLeave(ctx context.Context, removed bool) error {
	o, path, below := s.ref.o, s.implied, s.below
	if !s.through {
		path, below = s.node.origin, s.node.below
	}
	if o.rules == nil || s.kind != vfs.DirKind || !below {
		return nil
	}
	n, err := o.lowerAt(ctx, path)
	if missing(err) || replaced(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer n.Close()
	d, ok := n.(vfs.Dir)
	if !ok {
		return nil
	}
	if err = o.rules.CheckDir(d); err == nil && removed {
		err = o.rules.CheckEmpty(d)
	}
	return err
}

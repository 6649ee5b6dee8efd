package membrane

import (
	"cmp"
	"context"
	"sync"

	"capd/vfs"
)

// contentView is a content held open behind a membrane. It follows the rights of its
// file, even after the file was closed.
type contentView struct {
	ctx   context.Context // of Open; may belong to a batch
	inner vfs.Content
	v     *fileView
	node  *shared // of v, which may be closed
	end   func()
	once  sync.Once
}

func (c *contentView) ReadAt(p []byte, off int64) (int, error) {
	if err := c.may(); err != nil {
		return 0, err
	}
	n, err := 0, error(nil)
	late := c.v.guards.within(c.ctx, func(context.Context) error {
		n, err = c.inner.ReadAt(p, off)
		return nil
	})
	if late = cmp.Or(c.may(), late); late != nil {
		return 0, late
	}
	return n, err
}

// Clone implements [vfs.Cloner]. If the right to read is revoked during the clone, the file
// may have the content, and Clone answers an error.
func (c *contentView) Clone(fd uintptr) error {
	if err := c.may(); err != nil {
		return err
	}
	err := c.v.guards.within(c.ctx, func(context.Context) error { return vfs.Clone(c.inner, fd) })
	return cmp.Or(err, c.may())
}

// Learn implements [vfs.Learner]. It takes no slot: the store asks for what the kernel has in memory.
func (c *contentView) Learn(version vfs.Version) { vfs.Learn(c.inner, version) }

// may checks the rights of v, closed or not.
func (c *contentView) may() error {
	if restores(c.ctx) {
		return (c.v.mode() & lasting).refuse(0)
	}
	m := c.v.mode()
	err := m.refuse(noRead)
	if err != nil && heldBy(c.ctx, c.v.bind().gate) {
		err = (m &^ heldModes).refuse(noRead)
	}
	return cmp.Or(err, c.v.ruled(noRead))
}

func (c *contentView) Size() int64 { return c.inner.Size() }

// Close does not wait, although the store's Close may. The content counts as open until
// the store has closed it.
func (c *contentView) Close() (err error) {
	c.once.Do(func() {
		if b := c.v.guards.bulkhead; b != nil && !vfs.CanTry(c.v.file) {
			b.closes.Do(func() { _ = c.close() })
		} else {
			err = c.close()
		}
	})
	return err
}

func (c *contentView) close() error {
	err := c.inner.Close()
	c.node.release()
	c.v.base.Release()
	c.end()
	return err
}

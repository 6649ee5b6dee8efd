package git

import (
	"context"
	"io"
	"slices"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// maxFile is the size, in bytes, of the largest file that may be written. Git needs
// about that much memory to add a file.
const maxFile = 4 << 30

// content is what was written to a file. It is written in place under Store.mu until it
// is frozen. After that it never changes, and is read without a lock.
type content struct {
	spool  *spool
	size   int64
	slots  []uint32
	users  atomic.Int32
	frozen atomic.Bool

	version atomic.Pointer[vfs.Version]   // nil if not known
	id      atomic.Pointer[plumbing.Hash] // nil if not known
}

func newContent(s *spool) *content {
	c := &content{spool: s}
	c.users.Store(1)
	return c
}

func (c *content) hold() *content {
	c.users.Add(1)
	return c
}

func (c *content) release() {
	if c.users.Add(-1) == 0 {
		c.spool.drop(c.slots...)
	}
}

// ReadAt implements io.ReaderAt.
func (c *content) ReadAt(p []byte, off int64) (int, error) {
	if off >= c.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.size-off))
	for done := 0; done < n; {
		i, from := (off+int64(done))/slotSize, (off+int64(done))%slotSize
		part := p[done:min(n, done+int(slotSize-from))]
		if err := c.spool.readAt(c.slots[i], part, from); err != nil {
			return done, err
		}
		done += len(part)
	}
	return n, endOf(n, len(p))
}

// writeAt writes p at off. c must not be frozen. After a failure the first n bytes were
// written.
func (c *content) writeAt(p []byte, off int64) (n int, err error) {
	if err := c.grow(off); err != nil {
		return 0, err
	}
	c.changed()
	for n < len(p) {
		i, from := (off+int64(n))/slotSize, (off+int64(n))%slotSize
		part := p[n:min(len(p), n+int(slotSize-from))]
		if err := c.writeSlot(int(i), part, from); err != nil {
			return n, err
		}
		n += len(part)
		c.size = max(c.size, off+int64(n))
	}
	return n, nil
}

// writeSlot writes p into slot i. If other contents share the slot it copies it first.
func (c *content) writeSlot(i int, p []byte, from int64) error {
	if i == len(c.slots) {
		c.slots = append(c.slots, hole)
	}
	old := c.slots[i]
	if old != hole && !c.spool.shared(old) {
		return c.spool.writeAt(old, p, from)
	}
	used := min(max(c.size-int64(i)*slotSize, 0), slotSize)
	whole := make([]byte, max(used, from+int64(len(p))))
	if used > 0 {
		if err := c.spool.readAt(old, whole[:used], 0); err != nil {
			return err
		}
	}
	copy(whole[from:], p)
	slot, err := c.spool.take()
	if err != nil {
		return err
	}
	if err := c.spool.writeAt(slot, whole, 0); err != nil {
		c.spool.drop(slot)
		return err
	}
	c.spool.drop(old)
	c.slots[i] = slot
	return nil
}

// grow makes c at least size bytes long by adding zeros. c must not be frozen.
func (c *content) grow(size int64) error {
	if size <= c.size {
		return nil
	}
	if tail := c.size % slotSize; tail > 0 && c.slots[len(c.slots)-1] != hole {
		zeros := make([]byte, min(slotSize-tail, size-c.size))
		if err := c.writeSlot(len(c.slots)-1, zeros, tail); err != nil {
			return err
		}
	}
	c.slots = append(c.slots, make([]uint32, slotsOf(size)-len(c.slots))...)
	c.size = size
	c.changed()
	return nil
}

// truncate makes c size bytes long. c must not be frozen.
func (c *content) truncate(size int64) error {
	if size >= c.size {
		return c.grow(size)
	}
	keep := slotsOf(size)
	c.spool.drop(c.slots[keep:]...)
	c.slots = slices.Clone(c.slots[:keep])
	c.size = size
	c.changed()
	return nil
}

func slotsOf(size int64) int { return int((size + slotSize - 1) / slotSize) }

func (c *content) changed() {
	c.version.Store(nil)
	c.id.Store(nil)
}

// fork returns a new content equal to c, which must be frozen.
func (c *content) fork() *content {
	f := newContent(c.spool)
	f.size, f.slots = c.size, slices.Clone(c.slots)
	c.spool.share(f.slots)
	return f
}

// sum returns c's version. c must be frozen, or Store.mu held.
func (c *content) sum(ctx context.Context) (vfs.Version, error) {
	if v := c.version.Load(); v != nil {
		return *v, nil
	}
	v, err := sum(ctx, c, c.size)
	if err == nil {
		c.version.Store(&v)
	}
	return v, err
}

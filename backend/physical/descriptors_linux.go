package physical

import (
	"container/list"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors keeps the least recently used directories open, at most max of
// them, whoever holds how many Dirs. An open descriptor pins an inode: as long
// as it is here, the same device and number mean the same directory.
type descriptors struct {
	max int

	mu    sync.Mutex
	byKey map[string]*list.Element // by path
	used  list.List                // of *pinned, most recent first
}

type pinned struct {
	path     string
	id       ident
	dev, ino uint64
	fd       int
}

func newDescriptors(max int) *descriptors {
	return &descriptors{max: max, byKey: map[string]*list.Element{}}
}

func (c *descriptors) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}

// holds reports whether a directory that the caller holds open, with this
// device and number, is the one kept for path and id.
func (c *descriptors) holds(path string, id ident, dev, ino uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[path]
	if e == nil {
		return false
	}
	p := e.Value.(*pinned)
	if p.dev != dev || p.ino != ino || !p.id.same(id) {
		return false
	}
	c.used.MoveToFront(e)
	return true
}

// keep keeps a duplicate of fd, which was verified to be id at path. It is only
// a cache: when no descriptor can be had, nothing is kept.
func (c *descriptors) keep(path string, id ident, dev, ino uint64, fd int) {
	if c.max <= 0 {
		return
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[path]; e != nil {
		c.drop(e)
	}
	for c.used.Len() >= c.max {
		c.drop(c.used.Back())
	}
	c.byKey[path] = c.used.PushFront(&pinned{path, id, dev, ino, dup})
}

func (c *descriptors) drop(e *list.Element) {
	p := c.used.Remove(e).(*pinned)
	delete(c.byKey, p.path)
	unix.Close(p.fd)
}

func (c *descriptors) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = 0
	for c.used.Len() > 0 {
		c.drop(c.used.Back())
	}
}

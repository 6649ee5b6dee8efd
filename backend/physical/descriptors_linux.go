package physical

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// idle is how long a directory that nobody asks for stays open.
const idle = time.Minute

// descriptors keeps the most recently used directories open, at most max of
// them, whoever holds how many Dirs, and none that is idle. An open descriptor pins an inode: as long
// as it is here, the same device and number mean the same directory.
type descriptors struct {
	max int

	mu    sync.Mutex
	byKey map[string]*list.Element // by path
	used  list.List                // of *pinned, most recent first
	timer *time.Timer              // closes what is idle; nil when nothing is kept
}

type pinned struct {
	path     string
	id       ident
	dev, ino uint64
	fd       int
	last     time.Time // asked for
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
	p.last = time.Now()
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
	c.byKey[path] = c.used.PushFront(&pinned{path, id, dev, ino, dup, time.Now()})
	if c.timer == nil {
		c.timer = time.AfterFunc(idle, c.closeIdle)
	}
}

// closeIdle closes what has been idle, and comes again while anything is kept.
func (c *descriptors) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.used.Back(); e != nil && time.Since(e.Value.(*pinned).last) >= idle; e = c.used.Back() {
		c.drop(e)
	}
	c.timer = nil
	if c.used.Len() > 0 {
		c.timer = time.AfterFunc(idle, c.closeIdle)
	}
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
	if c.timer != nil {
		c.timer.Stop()
	}
	for c.used.Len() > 0 {
		c.drop(c.used.Back())
	}
}

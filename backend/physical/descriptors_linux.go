package physical

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// idle is how long what nobody asks for stays open: longer than a program rests
// between two reads, and short enough that what a guest has had opened is closed
// soon after it has gone.
const idle = 5 * time.Second

// descriptors keeps the most recently used directories and files open, at most
// max of them, whoever holds how many nodes, and none that is idle. An open
// descriptor pins an inode: as long as it is here, the same device and number
// mean the same directory or file.
//
// It closes files on another goroutine than its caller's: the last descriptor of one that
// was removed frees all of that. While many wait to be closed, none is kept.
//
// Where the process is out of descriptors, what is kept is closed first; see withRoom.
type descriptors struct {
	max    int
	shared bool // max is for all that are shared together
	closes vfs.Janitor

	mu      sync.Mutex
	byKey   map[string]*list.Element // by path
	used    list.List                // of *pinned, most recent first
	timer   *time.Timer              // closes what is idle; nil when nothing is kept
	forgets uint64                   // how often something was forgotten
}

type pinned struct {
	path string
	last time.Time // asked for

	file *openFile // or else a directory:

	id       ident
	dev, ino uint64
	fd       int
}

func newDescriptors(max int, shared bool) *descriptors {
	c := &descriptors{max: max, shared: shared, byKey: map[string]*list.Element{}}
	keeping.begin(c)
	return c
}

// most is how many c may keep now.
func (c *descriptors) most() int {
	if c.shared && c.max > 0 {
		return max(c.max/keeping.shares(), 1)
	}
	return c.max
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
	if p.file != nil || p.dev != dev || p.ino != ino || !p.id.same(id) {
		return false
	}
	c.touch(e)
	return true
}

// ident returns what identifies a directory that the caller holds open, with this
// device and number, if it is the one kept for path.
func (c *descriptors) ident(path string, dev, ino uint64) (ident, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[path]
	if e == nil {
		return ident{}, false
	}
	p := e.Value.(*pinned)
	if p.file != nil || p.dev != dev || p.ino != ino {
		return ident{}, false
	}
	c.touch(e)
	return p.id, true
}

// keep keeps a duplicate of fd, which was verified to be id at path. It is only
// a cache: when no descriptor can be had, nothing is kept.
func (c *descriptors) keep(path string, id ident, dev, ino uint64, fd int) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(&pinned{path: path, id: id, dev: dev, ino: ino, fd: dup})
}

// file returns the file kept for path, for the caller to close, or nil.
func (c *descriptors) file(path string) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[path]
	if e == nil || e.Value.(*pinned).file == nil {
		return nil
	}
	c.touch(e)
	return e.Value.(*pinned).file.retain()
}

// mark is asked for before a file is opened that keepFile is to keep.
func (c *descriptors) mark() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forgets
}

// keepFile keeps f, which was opened at path, unless anything was forgotten since
// mark: that may have been this path, and f a file that is there no more.
func (c *descriptors) keepFile(path string, f *openFile, mark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgets == mark && !c.lags() {
		c.add(&pinned{path: path, file: f.retain()})
	}
}

// lags reports whether many wait to be closed.
func (c *descriptors) lags() bool { return c.closes.Len() > maxCloses }

const maxCloses = 64

// forget closes the file that is kept for path. A directory stays: its number
// may not be given to another while somebody asks for it.
func (c *descriptors) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	c.removeFile(c.byKey[path])
}

// forgetBelow is forget for the files below a directory that is moved.
func (c *descriptors) forgetBelow(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	for p, e := range c.byKey {
		if strings.HasPrefix(p, path) && strings.HasPrefix(p[len(path):], "/") {
			c.removeFile(e)
		}
	}
}

// drop closes f when it is what is kept for path.
func (c *descriptors) drop(path string, f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[path]; e != nil && e.Value.(*pinned).file == f {
		c.remove(e)
	}
}

// touch, add, remove and removeFile are called with c.mu held.
func (c *descriptors) touch(e *list.Element) {
	e.Value.(*pinned).last = time.Now()
	c.used.MoveToFront(e)
}

func (c *descriptors) add(p *pinned) {
	most := c.most()
	if most <= 0 {
		c.discard(p)
		return
	}
	if e := c.byKey[p.path]; e != nil {
		c.remove(e)
	}
	for c.used.Len() >= most {
		c.remove(c.used.Back())
	}
	p.last = time.Now()
	c.byKey[p.path] = c.used.PushFront(p)
	if c.timer == nil {
		c.timer = time.AfterFunc(idle, c.closeIdle)
	}
}

func (c *descriptors) remove(e *list.Element) {
	p := c.used.Remove(e).(*pinned)
	delete(c.byKey, p.path)
	c.discard(p)
}

func (c *descriptors) removeFile(e *list.Element) {
	if e != nil && e.Value.(*pinned).file != nil {
		c.remove(e)
	}
}

func (c *descriptors) discard(p *pinned) {
	if p.file == nil {
		unix.Close(p.fd)
	} else {
		c.closeSoon(p.file)
	}
}

// closeSoon closes f, elsewhere.
func (c *descriptors) closeSoon(f *openFile) {
	if f.refs.Add(-1) == 0 {
		c.closes.Do(func() { unix.Close(f.fd) })
	}
}

// closeIdle closes what has been idle, and comes again while anything is kept.
func (c *descriptors) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.used.Back(); e != nil; e = c.used.Back() {
		if left := idle - time.Since(e.Value.(*pinned).last); left > 0 {
			c.timer = time.AfterFunc(left, c.closeIdle)
			return
		}
		c.remove(e)
	}
	c.timer = nil
}

// close returns when all are closed.
func (c *descriptors) close() {
	keeping.end(c)
	c.mu.Lock()
	c.max = 0
	if c.timer != nil {
		c.timer.Stop()
	}
	for c.used.Len() > 0 {
		c.remove(c.used.Back())
	}
	c.mu.Unlock()
	<-c.closes.Idle()
}

package physical

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// idle is how long an unused descriptor stays open. It is longer than programs usually
// pause between two reads, and short enough that a guest's descriptors are closed soon
// after it has left.
const idle = 5 * time.Second

// descriptors caches open directories and files, the most recently used, at most max of
// them. It does not depend on how many nodes guests hold. Idle descriptors are closed.
// An open descriptor pins an inode: while it is cached, the same device and number mean
// the same directory or file.
//
// Files are closed on another goroutine: closing the last descriptor of a removed file
// frees its content, which takes time. While many files wait to be closed, none is
// cached. When the process runs out of descriptors, cached ones are closed first; see
// withRoom.
type descriptors struct {
	max    int
	shared bool // max is for all shared stores together
	closes vfs.Janitor

	mu      sync.Mutex
	byKey   map[string]*list.Element // by path
	used    list.List                // of *pinned, most recent first
	timer   *time.Timer              // closes idle ones; nil when nothing is cached
	forgets uint64                   // number of calls of forget and forgetBelow
}

type pinned struct {
	path string
	last time.Time // when it was last used

	file *openFile // nil for a directory:

	id       ident
	dev, ino uint64
	fd       int
}

func newDescriptors(max int, shared bool) *descriptors {
	c := &descriptors{max: max, shared: shared, byKey: map[string]*list.Element{}}
	keeping.begin(c)
	return c
}

// limit is how many c may keep now.
func (c *descriptors) limit() int {
	if c.shared && c.max > 0 {
		return max(c.max/keeping.sharers(), 1)
	}
	return c.max
}

// holds reports whether a directory is the one kept for path and id. The caller has it
// open; its device and number are dev and ino.
func (c *descriptors) holds(path string, id ident, dev, ino uint64) bool {
	have, ok := c.ident(path, dev, ino)
	return ok && have.same(id)
}

// ident returns the identity of a directory if it is the one kept for path. The caller
// has it open; its device and number are dev and ino.
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

// keep keeps a duplicate of fd, which was verified to be id at path. It is only a
// cache: if no descriptor can be had, keep does nothing.
func (c *descriptors) keep(path string, id ident, dev, ino uint64, fd int) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(&pinned{path: path, id: id, dev: dev, ino: ino, fd: dup})
}

// file returns the file kept for path, or nil. The caller closes it.
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

// mark must be called before a file is opened that is later passed to keepFile.
func (c *descriptors) mark() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forgets
}

// keepFile keeps f, which was opened at path, unless forget was called since mark: f
// may be a file that is no longer there.
func (c *descriptors) keepFile(path string, f *openFile, mark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgets == mark && !c.behind() {
		c.add(&pinned{path: path, file: f.retain()})
	}
}

// behind reports whether many files wait to be closed.
func (c *descriptors) behind() bool { return c.closes.Len() > maxCloses }

const maxCloses = 64

// forget closes the file that is kept for path. A directory stays: while somebody uses
// its number, no other may get it.
func (c *descriptors) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	c.removeFile(c.byKey[path])
}

// forgetBelow forgets the files below a directory that is moved.
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

// drop closes f if it is the file kept for path.
func (c *descriptors) drop(path string, f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[path]; e != nil && e.Value.(*pinned).file == f {
		c.remove(e)
	}
}

// touch, add, remove and removeFile need c.mu.
func (c *descriptors) touch(e *list.Element) {
	e.Value.(*pinned).last = time.Now()
	c.used.MoveToFront(e)
}

func (c *descriptors) add(p *pinned) {
	most := c.limit()
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

// closeSoon closes f on another goroutine.
func (c *descriptors) closeSoon(f *openFile) {
	if f.refs.Add(-1) == 0 {
		c.closes.Do(func() { unix.Close(f.fd) })
	}
}

// closeIdle closes idle descriptors, and runs again while any is kept.
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

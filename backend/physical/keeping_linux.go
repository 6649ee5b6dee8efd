package physical

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// caches are all descriptor caches of the process.
type caches struct {
	mu     sync.Mutex
	all    map[*descriptors]struct{}
	shared atomic.Int64 // how many of them share one bound
}

var keeping = caches{all: map[*descriptors]struct{}{}}

func (k *caches) begin(c *descriptors) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[c] = struct{}{}
	if c.shared {
		k.shared.Add(1)
	}
}

func (k *caches) end(c *descriptors) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.all[c]; there && c.shared {
		k.shared.Add(-1)
	}
	delete(k.all, c)
}

// sharers returns how many share one bound, at least 1.
func (k *caches) sharers() int { return int(max(k.shared.Load(), 1)) }

// shrink closes half of each cache, the longest unused first. It reports whether it
// closed any.
func (k *caches) shrink() (some bool) {
	k.mu.Lock()
	all := slices.Collect(maps.Keys(k.all))
	k.mu.Unlock()
	for _, c := range all {
		some = c.letGo() || some
	}
	return some
}

// closeWait is how long to wait for files to be closed, since a disk may not answer.
const closeWait = 20 * time.Millisecond

func (c *descriptors) letGo() bool {
	c.mu.Lock()
	n := (c.used.Len() + 1) / 2
	for range n {
		c.remove(c.used.Back())
	}
	c.mu.Unlock()
	if n == 0 {
		return false
	}
	select {
	case <-c.closes.Idle():
	case <-time.After(closeWait):
	}
	return true
}

// withRoom runs open. If the process has no descriptor left, it closes cached ones and
// runs open again, while there are any. Caches only save time.
func withRoom(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if err != unix.EMFILE && err != unix.ENFILE || !keeping.shrink() {
			return fd, err
		}
	}
}

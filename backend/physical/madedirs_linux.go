package physical

import (
	"sync"
	"sync/atomic"
	"time"
)

// madeDir is a directory that was made through a store: where, from the store's root, and its inode number.
type madeDir struct {
	s    *Store
	path string
	ino  uint64
}

// madeDirs are those that were made lately, while anything is watched. So what is told of them is known for their own. It may be used
// in a commit.
type madeDirs struct {
	on  atomic.Bool
	mu  sync.Mutex
	all map[madeDir]time.Time
	old time.Time // when those that are too old were forgotten
}

// lately is how long they are remembered. Whoever tells of them does so sooner.
const lately = 2 * time.Second

// maxMadeDirs is how many are remembered: each path may be long. A directory that is not is told twice.
const maxMadeDirs = 8192

func (m *madeDirs) add(d madeDir) {
	if !m.on.Load() {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxMadeDirs {
		m.all = map[madeDir]time.Time{}
	}
	if now.Sub(m.old) > lately {
		m.old = now
		for d, at := range m.all {
			if now.Sub(at) > lately {
				delete(m.all, d)
			}
		}
	}
	m.all[d] = now
}

func (m *madeDirs) has(d madeDir) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.all[d]
	return ok
}

func (m *madeDirs) forget() {
	m.on.Store(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
}

// noteMade notes the directory at p, which was made through s.
func (s *Store) noteMade(p place) { notifications.mine.add(madeDir{s, p.path, p.id.ino}) }

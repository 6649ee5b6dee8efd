package physical

import (
	"slices"
	"strings"
	"sync"
)

// nameLocks are locks on names. Within this process, changes of one name exclude each
// other, and moving a directory excludes every change below it. Changes of other names
// do not wait. A lock is taken inside Commit and held for a few system calls.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock // by path
}

// nameLock is the lock of one path. It exists while it is used. A change locks its name,
// and the directories on the way for reading.
type nameLock struct {
	lock  sync.RWMutex
	users int // under nameLocks.mu
}

// claim is the use of one name's lock.
type claim struct {
	path    string
	changes bool
	name    *nameLock
}

// lock locks the names at paths. It also closes files kept open for them, since they
// may change.
func (s *Store) lock(paths ...string) (unlock func()) {
	names := s.lockNames(paths...)
	return func() {
		for _, path := range paths {
			s.host.forget(path)
		}
		names()
	}
}

// lockDirectory is lock for a directory that is moved.
func (s *Store) lockDirectory(from, to string) (unlock func()) {
	names := s.lockNames(from, to)
	return func() {
		s.host.forgetBelow(from)
		names()
	}
}

// lock locks the names at these paths. Nobody changes what the first above bytes of them lead to.
func (l *nameLocks) lock(paths []string, above int) (unlock func()) {
	claims := claimsOf(paths, above)
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	for i := range claims {
		c := &claims[i]
		if c.name = l.held[c.path]; c.name == nil {
			c.name = &nameLock{}
			l.held[c.path] = c.name
		}
		c.name.users++
	}
	l.mu.Unlock()
	for _, c := range claims {
		c.lock()
	}
	return func() { l.unlock(claims) }
}

func (l *nameLocks) unlock(claims []claim) {
	for _, c := range claims {
		c.unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		if c.name.users--; c.name.users == 0 {
			delete(l.held, c.path)
		}
	}
}

// claimsOf returns paths and the directories on the way, each once. It leaves out the directories within
// the first above bytes of a path. All callers use the same order, so no two wait for each other.
func claimsOf(paths []string, above int) []claim {
	var claims []claim
	for _, path := range paths {
		for i := above; i < len(path); i++ {
			if path[i] == '/' {
				claims = append(claims, claim{path: path[:i]})
			}
		}
		claims = append(claims, claim{path: path, changes: true})
	}
	if len(paths) == 1 {
		return claims // in order already
	}
	slices.SortFunc(claims, func(a, b claim) int {
		if c := strings.Compare(a.path, b.path); c != 0 || a.changes == b.changes {
			return c
		}
		if a.changes {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(claims, func(a, b claim) bool { return a.path == b.path })
}

func (c claim) lock() {
	if c.changes {
		c.name.lock.Lock()
	} else {
		c.name.lock.RLock()
	}
}

func (c claim) unlock() {
	if c.changes {
		c.name.lock.Unlock()
	} else {
		c.name.lock.RUnlock()
	}
}

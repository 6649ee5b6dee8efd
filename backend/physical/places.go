package physical

import "sync"

// places are locks on names: within this process, changes of one name exclude
// each other. A lock is taken inside Commit and held for the length of a few
// system calls.
type places struct {
	names [64]sync.Mutex

	// directories is held to move a directory, and shared by every other change: one
	// through an old path and one through a new must not meet at one file.
	directories sync.RWMutex
}

// lock locks the names at these paths, one or two, and returns what unlocks
// them. What is kept open of a file there is closed then: it may have gone.
func (s *Store) lock(paths ...string) (unlock func()) {
	s.places.directories.RLock()
	names := s.places.lock(paths)
	return func() {
		for _, path := range paths {
			s.host.forget(path)
		}
		names()
		s.places.directories.RUnlock()
	}
}

// lockDirectories is lock for a directory that is moved.
func (s *Store) lockDirectories(from string) (unlock func()) {
	s.places.directories.Lock()
	return func() {
		s.host.forgetBelow(from)
		s.places.directories.Unlock()
	}
}

func (l *places) lock(paths []string) (unlock func()) {
	first := l.of(paths[0])
	last := l.of(paths[len(paths)-1])
	if first > last { // in one order, so that no two wait for each other
		first, last = last, first
	}
	l.names[first].Lock()
	if first == last {
		return l.names[first].Unlock
	}
	l.names[last].Lock()
	return func() { l.names[last].Unlock(); l.names[first].Unlock() }
}

func (l *places) of(path string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(path) {
		h = (h ^ uint32(path[i])) * 16777619
	}
	return int(h % uint32(len(l.names)))
}

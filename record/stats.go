package record

import (
	"maps"
	"sync"

	"capd/vfs"
)

// Stats are figures about a record that is written.
type Stats struct {
	Entries int64              // that are there
	Bytes   int64              // of their JSON
	Open    int64              // changes that have not ended
	Added   map[Kind]int64     // entries since the start
	Denied  map[vfs.Code]int64 // calls that were refused since the start; "" for those that are only counted
}

// stats counts what is committed.
type stats struct {
	mu    sync.Mutex
	shown Stats
	fresh []added // in the present transaction; the goroutine that writes alone uses it
}

// added is what is counted of an entry.
type added struct {
	kind  Kind
	code  vfs.Code
	times int64
}

// Stats returns the present figures.
func (l *Log) Stats() Stats {
	l.stats.mu.Lock()
	defer l.stats.mu.Unlock()
	s := l.stats.shown
	s.Added, s.Denied = maps.Clone(s.Added), maps.Clone(s.Denied)
	return s
}

// committed runs when a transaction with entries is on disk.
func (l *Log) committed() {
	s := &l.stats
	s.mu.Lock()
	for _, e := range s.fresh {
		s.shown.Added[e.kind]++
		if e.kind == Denied {
			s.shown.Denied[e.code] += max(1, e.times)
		}
	}
	s.fresh = s.fresh[:0]
	s.shown.Entries, s.shown.Bytes, s.shown.Open = l.tree.size-l.first, l.bytes, int64(len(l.open))
	s.mu.Unlock()
	l.news.tell()
}

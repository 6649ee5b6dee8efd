package membrane

import (
	"math"
	"path"
	"sync"
	"sync/atomic"

	"capd/meter"
)

// Reads counts what is read and listed in trees, by capability and directory. A read of a part of a file counts as one, and so
// does a content that is opened. Safe for concurrent use.
type Reads struct {
	// Each reports whether each read in the directory dir is told one by one. Nil is never. A rule may say so as well; see [Bounds].
	Each func(dir string) bool
	// One is told of such a read. It must not wait. If it returns false the read is counted.
	One func(OneRead) bool
	// Began is called when there is something to count and there was nothing. It may be nil.
	Began func()

	mu     sync.RWMutex
	counts map[readKey]*count
	dirs   map[*meter.Meter]int // how many counts the capabilities of a root grant have
}

// OneRead is one read, or one listing.
type OneRead struct {
	ID   int64 // of the capability, or of the nearest that it was derived from; see [Control.Keep]. 0 for none
	Op   OpKind
	Path string
}

// ReadCount is how often something was read in a directory.
type ReadCount struct {
	ID   int64 // as in OneRead
	List bool  // listed, and not read
	Dir  string
	Rest bool // in all directories that have no count of their own; Dir is ""
	N    int64
}

// maxReadDirs is how many counts the capabilities of one root grant have. What is read elsewhere is counted together.
const maxReadDirs = 4096

type readKey struct {
	by   *meter.Meter
	list bool
	rest bool // what has no count of its own
	each bool // of that, what is told one by one
	dir  string
}

// count is how often something was read since it was last taken.
type count struct {
	n    atomic.Int64 // below 0: it is not taken any more
	id   int64
	each bool
}

// uncounted is what a count has that is not taken any more. However often it is read, it stays below 0.
const uncounted = math.MinInt64 / 2

// add counts a read. It reports whether it was counted.
func (c *count) add() bool { return c.n.Add(1) > 0 }

// note counts a read of v, which is in dir: v itself if it is listed.
func (v *view) note(kind OpKind) {
	if v.guards.reads == nil || v.base.meter == nil || v.wide { // a host that looks for itself
		return
	}
	dir := v.path
	if kind != OpList {
		dir = directory(v.path)
	}
	c := v.reads.Load()
	if c == nil || c.n.Load() < 0 {
		c = v.guards.reads.at(v.base, kind, dir)
		v.reads.Store(c)
	}
	v.noteIn(c, kind, v.path, dir, v.standing())
}

// noteIn counts a read in dir, of which c is the count. r are the rules at at, which is read.
func (v *view) noteIn(c *count, kind OpKind, at, dir string, r *rules) {
	if (c.each || r.audited(kind)) && v.guards.reads.One(OneRead{c.id, kind, at}) {
		return
	}
	for !c.add() {
		c = v.guards.reads.at(v.base, kind, dir)
	}
}

// noteScan counts a listing of the directory at path, below v.
func (v *view) noteScan(path string, r *rules) {
	if s := v.guards.reads; s != nil && v.base.meter != nil && !v.wide {
		v.noteIn(s.at(v.base, OpList, path), OpList, path, path, r)
	}
}

// audited reports whether the policy has each read told.
func (r *rules) audited(kind OpKind) bool {
	return r.judge != nil && r.bounds(kind.need()).AuditReads
}

func directory(at string) string {
	if dir := path.Dir(at); dir != "." {
		return dir
	}
	return ""
}

// at returns the count of what is read in dir through g.
func (s *Reads) at(g *Gate, kind OpKind, dir string) *count {
	key := readKey{by: g.meter, list: kind == OpList, dir: dir}
	s.mu.RLock()
	c := s.counts[key]
	s.mu.RUnlock()
	if c != nil {
		return c
	}
	return s.make(key, g.holder())
}

// make makes a count for key, or returns the one that is there.
func (s *Reads) make(key readKey, id int64) *count {
	c, first := s.put(key, id, s.Each != nil && s.Each(key.dir))
	if first && s.Began != nil {
		s.Began()
	}
	return c
}

// put is make. first reports that there was no count before.
func (s *Reads) put(key readKey, id int64, each bool) (c *count, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := key.grant()
	if s.counts[key] == nil && s.dirs[of] >= maxReadDirs {
		key = readKey{by: key.by, list: key.list, rest: true, each: each}
	}
	if c := s.counts[key]; c != nil {
		return c, false
	}
	if s.counts == nil {
		s.counts, s.dirs = map[readKey]*count{}, map[*meter.Meter]int{}
	}
	first = len(s.counts) == 0
	c = &count{id: id, each: each}
	s.counts[key] = c
	s.dirs[of]++
	return c, first
}

// grant returns the meter of the root grant.
func (k readKey) grant() *meter.Meter {
	if k.by == nil {
		return nil
	}
	return k.by.Grant()
}

// Take returns what was counted since the last Take. Where nothing was, nothing is counted any more until the next read. more
// reports whether there is something left to count.
func (s *Reads) Take() (all []ReadCount, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.counts {
		if n := c.n.Swap(0); n > 0 {
			all = append(all, ReadCount{c.id, key.list, key.dir, key.rest, n})
			continue
		}
		if !c.n.CompareAndSwap(0, uncounted) {
			continue
		}
		delete(s.counts, key)
		of := key.grant()
		if s.dirs[of]--; s.dirs[of] == 0 {
			delete(s.dirs, of)
		}
	}
	return all, len(s.counts) > 0
}

package database

import (
	"sync/atomic"
	"time"
)

// commitBounds are upper bounds of how long a commit takes.
var commitBounds = [...]time.Duration{100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
	30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}

// commits counts commits by how long they took.
type commits struct {
	counts [len(commitBounds) + 1]atomic.Uint64
	nanos  atomic.Int64
}

func (c *commits) took(d time.Duration) {
	i := 0
	for i < len(commitBounds) && d > commitBounds[i] {
		i++
	}
	c.counts[i].Add(1)
	c.nanos.Add(int64(d))
}

// Stats says how long commits took since the start.
type Stats struct {
	Bounds []float64 // in seconds
	Counts []uint64  // of commits that took at most each of Bounds, but longer than the one before; the last is of longer ones
	Sum    float64   // of all, in seconds
}

// Stats returns the present figures.
func (d *DB) Stats() Stats {
	s := Stats{Sum: time.Duration(d.commits.nanos.Load()).Seconds()}
	for _, b := range commitBounds {
		s.Bounds = append(s.Bounds, b.Seconds())
	}
	for i := range d.commits.counts {
		s.Counts = append(s.Counts, d.commits.counts[i].Load())
	}
	return s
}

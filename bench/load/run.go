package load

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what one slice measured.
type Result struct {
	N       int64  `json:"n"`             // operations
	Ns      int64  `json:"ns"`            // how long they took together
	P50     int64  `json:"p50,omitempty"` // nanoseconds; only with one outstanding
	P99     int64  `json:"p99,omitempty"` //
	Mallocs uint64 `json:"mallocs"`       // in this process
	Err     string `json:"err,omitempty"` //
}

// maxSamples is the most latencies kept of one slice.
const maxSamples = 1 << 17

// A Loop runs slices. It reuses the memory for samples.
type Loop struct{ samples []int64 }

// Run runs op with the given number outstanding for about d.
func (l *Loop) Run(op func(worker int) func() error, outstanding int, d time.Duration) (r Result) {
	ops := make([]func() error, outstanding)
	for i := range ops {
		ops[i] = op(i)
		if err := ops[i](); err != nil { // it also warms up
			return Result{Err: err.Error()}
		}
	}
	if l.samples == nil {
		l.samples = make([]int64, 0, maxSamples)
	}
	var err error
	before := Mallocs()
	if outstanding == 1 {
		r, err = l.one(ops[0], d)
	} else {
		r, err = many(ops, d)
	}
	r.Mallocs = Mallocs() - before
	if err != nil {
		return Result{Err: err.Error()}
	}
	return r
}

func (l *Loop) one(op func() error, d time.Duration) (r Result, err error) {
	samples := l.samples[:0]
	start := time.Now()
	for last := start; time.Since(start) < d; r.N++ {
		if err := op(); err != nil {
			return r, err
		}
		now := time.Now()
		if len(samples) < maxSamples {
			samples = append(samples, int64(now.Sub(last)))
		}
		last = now
	}
	r.Ns = int64(time.Since(start))
	slices.Sort(samples)
	r.P50, r.P99 = samples[len(samples)/2], samples[len(samples)*99/100]
	return r, nil
}

func many(ops []func() error, d time.Duration) (r Result, err error) {
	var stop atomic.Bool
	var n atomic.Int64
	errs := make(chan error, len(ops))
	var all sync.WaitGroup
	start := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	for _, op := range ops {
		all.Go(func() {
			var mine int64
			for ; !stop.Load(); mine++ {
				if err := op(); err != nil {
					errs <- fmt.Errorf("with %d outstanding: %w", len(ops), err)
					stop.Store(true)
					break
				}
			}
			n.Add(mine)
		})
	}
	all.Wait()
	r.Ns, r.N = int64(time.Since(start)), n.Load()
	select {
	case err = <-errs:
	default:
	}
	return r, err
}

// Mallocs returns how many objects this process has allocated.
func Mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

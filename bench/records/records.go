// Package records measures what the durable state of a host costs: the record of changes beside a host that keeps none, what
// many writers save by committing together, the syncs of a revoke, how fast a record is verified and a host starts, and what telling of changes takes.
package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Options configure a run.
type Options struct {
	Dir    string        // an empty directory, below which everything is made. Its disk is what is measured
	Rounds int           // turns of each contender
	Slice  time.Duration // how long a turn is
	Scale  float64       // how many entries and grants there are; 1 is what the targets are for
	Only   func(name string) bool
	// Capd builds capd, and returns the program.
	Capd func() (string, error)
}

// Row compares what capd does with the same done otherwise, or with a bound.
type Row struct {
	Name   string  `json:"name"`
	Floor  string  `json:"floor"`            // what it is compared with; "" for a bound alone
	Unit   string  `json:"unit"`             // of Base and Value: µs, /s, ms, MB, or "" for a number
	More   bool    `json:"more"`             // more is better
	Base   float64 `json:"base,omitempty"`   // the floor's, a median
	Value  float64 `json:"value,omitempty"`  // capd's
	Ratio  float64 `json:"ratio,omitempty"`  // of the same round, a median
	Target float64 `json:"target,omitempty"` // for Ratio, or for Value without a floor
	Err    string  `json:"err,omitempty"`
}

// Met reports whether the target is reached. known is false if there is no figure.
func (r Row) Met() (met, known bool) {
	got := r.Ratio
	if r.Floor == "" {
		got = r.Value
	}
	if r.Err != "" || got == 0 || r.Target == 0 {
		return false, false
	}
	return got <= r.Target != r.More || got == r.Target, true
}

// figure is one measurement of one contender.
type figure func(ctx context.Context) (float64, error)

// contest measures a row. A floor of nil is none.
type contest struct {
	Row
	floor, capd figure
}

// world is some rows that need the same preparation.
type world struct {
	rows  []*contest
	setup func(ctx context.Context) error
	close func() error
}

// Run measures the rows that are asked for. A row that fails has its error.
func Run(ctx context.Context, o Options) (rows []Row, err error) {
	for i, of := range []func(*Options, string) *world{hosts, journals, logs, processes, changes, mcps} {
		dir := filepath.Join(o.Dir, strconv.Itoa(i))
		w := of(&o, dir)
		w.rows = slices.DeleteFunc(w.rows, func(c *contest) bool { return !o.Only(c.Name) })
		if len(w.rows) == 0 {
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		failed := w.setup(ctx)
		for _, c := range w.rows {
			if failed == nil {
				failed = c.measure(ctx, o.Rounds)
			}
			if failed != nil {
				c.Err = failed.Error()
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.Name, failed)
			}
			failed = nil
			rows = append(rows, c.Row)
		}
		if err := errors.Join(w.close(), os.RemoveAll(dir), ctx.Err()); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// measure gives both their turns, the one who begins changes. A first turn of each does not count.
func (c *contest) measure(ctx context.Context, rounds int) error {
	var base, values, ratios []float64
	for round := -1; round < rounds; round++ {
		got := [2]float64{}
		for i := range 2 {
			which := (i + round + 2) % 2
			f := []figure{c.floor, c.capd}[which]
			if f == nil {
				continue
			}
			v, err := f(ctx)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			got[which] = v
		}
		if round < 0 {
			continue
		}
		values = append(values, got[1])
		if c.floor != nil {
			base, ratios = append(base, got[0]), append(ratios, got[1]/got[0])
		}
	}
	c.Base, c.Value, c.Ratio = median(base), median(values), median(ratios)
	return nil
}

// median returns the median of v, or 0 for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// p50 does something again and again, and returns the median time in microseconds.
func p50(slice time.Duration, do func(ctx context.Context) error) figure {
	return func(ctx context.Context) (float64, error) {
		var took []float64
		for begun := time.Now(); time.Since(begun) < slice; {
			t := time.Now()
			if err := do(ctx); err != nil {
				return 0, err
			}
			took = append(took, float64(time.Since(t).Nanoseconds())/1e3)
		}
		return median(took), nil
	}
}

// rate lets n workers do something at the same time, and returns how often all of them did it in a second.
func rate(slice time.Duration, n int, do func(ctx context.Context, worker int) error) figure {
	return func(ctx context.Context) (float64, error) {
		type result struct {
			n   int
			err error
		}
		done, begun := make(chan result), time.Now()
		for worker := range n {
			go func() {
				var r result
				for r.err == nil && time.Since(begun) < slice {
					if r.err = do(ctx, worker); r.err == nil {
						r.n++
					}
				}
				done <- r
			}()
		}
		sum, err := 0, error(nil)
		for range n {
			r := <-done
			sum, err = sum+r.n, errors.Join(err, r.err)
		}
		return float64(sum) / time.Since(begun).Seconds(), err
	}
}

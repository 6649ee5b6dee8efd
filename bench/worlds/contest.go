package worlds

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A contender does one thing again and again. Only run is timed.
type contender struct {
	name    string
	missing string // why it cannot run here; "" where it can
	before  func() error
	cpu     int // cpuOfSelf or cpuOfChildren: that is the figure; 0: the time that passes
	// run does it once. It returns a function that checks the outcome and removes it.
	run func(ctx context.Context) (check func() error, err error)
}

// A row compares contenders.
type row struct {
	name        string
	floor, capd *contender
	bytes       int64   // bytes per turn, for a row about a rate; 0 for a row about a time
	target      float64 // of the ratio; 0: none
	within      time.Duration
}

// longRounds is the number of rounds when turns are long.
const longRounds = 5

// measure gives every contender a turn in each round, in changing order. An extra first turn is not counted.
// Long turns have no extra turn: what the setup wrote and read is in the page cache, and the other costs of a
// first turn do not matter.
func (w world) measure(ctx context.Context, rounds int) []Row {
	if w.close != nil {
		defer func() {
			if err := w.close(); err != nil {
				complain(w.rows[0].name, err)
			}
		}()
	}
	if err := w.setup(ctx); err != nil {
		complain(w.rows[0].name, err)
		var failed []Row
		for _, r := range w.rows {
			failed = append(failed, Row{Name: r.name, Floor: r.floor.name, Rate: r.bytes != 0, Err: err.Error()})
		}
		return failed
	}
	var all []*contender
	errs := map[*contender]error{}
	for _, r := range w.rows {
		for _, c := range []*contender{r.floor, r.capd} {
			if slices.Contains(all, c) {
				continue
			}
			all = append(all, c)
			if c.missing != "" {
				errs[c] = errors.New(c.missing)
			}
		}
	}
	took := map[*contender][]time.Duration{}
	first := -1
	if w.long {
		first, rounds = 0, min(rounds, longRounds)
	}
	for round := first; round < rounds; round++ {
		for i := range all {
			c := all[(i+round+1)%len(all)]
			if errs[c] != nil || ctx.Err() != nil {
				continue
			}
			d, err := c.turn(ctx)
			if err != nil {
				complain(c.name, err)
				errs[c] = err
				continue
			}
			if round >= 0 {
				took[c] = append(took[c], d)
			}
		}
	}
	var results []Row
	for _, r := range w.rows {
		results = append(results, r.result(took, errs))
	}
	return results
}

// turn times one turn. Leftover work is done before: collecting garbage, and writing files to disk.
func (c *contender) turn(ctx context.Context) (time.Duration, error) {
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	syscall.Sync()
	runtime.GC()
	worked, err := cpuTime(c.cpu)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	check, err := c.run(ctx)
	took := time.Since(start)
	if c.cpu != 0 {
		until, err := cpuTime(c.cpu)
		if err != nil {
			return 0, err
		}
		took = time.Duration(until - worked)
	}
	if err == nil {
		err = check()
	}
	return took, err
}

func (r row) result(took map[*contender][]time.Duration, errs map[*contender]error) Row {
	out := Row{Name: r.name, Floor: r.floor.name, Rate: r.bytes != 0, Target: r.target, Within: r.within.Seconds()}
	figure := func(d time.Duration) float64 {
		if out.Rate {
			return float64(r.bytes) / d.Seconds()
		}
		return d.Seconds()
	}
	var base, values, ratios []float64
	if errs[r.floor] == nil {
		for _, d := range took[r.floor] {
			base = append(base, figure(d))
		}
	}
	if errs[r.capd] == nil {
		for i, d := range took[r.capd] {
			values = append(values, figure(d))
			if i < len(base) {
				ratios = append(ratios, figure(d)/base[i])
			}
		}
	}
	out.Base, out.Value, out.Ratio = median(base), median(values), median(ratios)
	if err := errors.Join(errs[r.floor], errs[r.capd]); err != nil {
		out.Err = err.Error()
	}
	return out
}

// median returns the median of v, or 0 if v is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// differ returns an error if got is not want.
func differ(what string, got, want any) error {
	return fmt.Errorf("%s: %v and not %v", what, got, want)
}

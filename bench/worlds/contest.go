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

// A contender does one thing, over and over. Only run is timed.
type contender struct {
	name    string
	missing string // why it cannot run here; "" where it can
	before  func() error
	// run returns what compares its outcome with what it ought to be, and clears it away.
	run func(ctx context.Context) (check func() error, err error)
}

// A row is what of contenders is compared.
type row struct {
	name        string
	floor, capd *contender
	bytes       int64   // handled in a turn, in a row about a rate; 0 in one about a time
	target      float64 // of the ratio; 0: none
	within      time.Duration
}

// longRounds is how many rounds of long turns are enough.
const longRounds = 5

// measure gives everybody a turn in each round, in an order that changes from round to round. A first one is not counted, unless
// turns are long: what the setup made and read is in the page cache then, and the rest of a first time is nothing beside them.
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

// turn is timed without what was left to do before it: garbage to collect, files to write to disk.
func (c *contender) turn(ctx context.Context) (time.Duration, error) {
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	syscall.Sync()
	runtime.GC()
	start := time.Now()
	check, err := c.run(ctx)
	took := time.Since(start)
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

// median is 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// differ says that something is not what it ought to be.
func differ(what string, got, want any) error {
	return fmt.Errorf("%s: %v and not %v", what, got, want)
}

// Package worlds measures what capd does with whole trees: searching, listing, reading, storing and copying.
// Each is measured beside another program that does the same with the same files. It also measures the memory
// of mounts and open nodes.
package worlds

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// Options configure a run.
type Options struct {
	Dir    string  // an empty directory, below which everything is made
	Rounds int     // turns of each contender; at most 5 if a turn takes seconds
	Scale  float64 // size of the trees; 1 is the size for which the targets are
	// Only selects rows by their names.
	Only func(name string) bool
	// Serve serves a directory by capd in another process. It returns the locator of a tree that has the
	// directory at Served.
	Serve  func(ctx context.Context, dir string) (locator string, stop func() error, err error)
	Served string
	// Source is a directory inside an existing git repository.
	Source string
}

// A Result is the result of a run.
type Result struct {
	Rows   []Row    `json:"rows"`
	Memory []Held   `json:"memory,omitempty"`
	Notes  []string `json:"notes,omitempty"` // on the method and the programs used
}

// A Row compares what capd does with the same done by a floor. Times are in seconds, rates in bytes per
// second. All are medians over the rounds.
type Row struct {
	Name   string  `json:"name"`
	Floor  string  `json:"floor"`
	Rate   bool    `json:"rate"`             // for rates more is better, for times less
	Base   float64 `json:"base,omitempty"`   // the floor's
	Value  float64 `json:"value,omitempty"`  // capd's
	Ratio  float64 `json:"ratio,omitempty"`  // capd's to the floor's, in the same round
	Target float64 `json:"target,omitempty"` // for Ratio; 0: none
	Within float64 `json:"within,omitempty"` // target for Value; 0: none
	Err    string  `json:"err,omitempty"`    // why something is missing
}

// Met reports whether every target is reached. known is false if there is no target or no figure.
func (r Row) Met() (met, known bool) {
	met = true
	if r.Target != 0 {
		if r.Ratio == 0 {
			return false, false
		}
		known = true
		met = r.Ratio <= r.Target && !r.Rate || r.Ratio >= r.Target && r.Rate
	}
	if r.Within != 0 {
		if r.Value == 0 {
			return false, false
		}
		known = true
		met = met && r.Value <= r.Within
	}
	return met && known, known
}

// A world is the rows about one tree.
type world struct {
	rows  []row
	long  bool // turns take seconds
	setup func(ctx context.Context) error
	close func() error // called after a failed setup, too
}

// Run measures the selected rows. If a world cannot be set up, its rows have the error, and the others are
// still measured.
func Run(ctx context.Context, o Options) (*Result, error) {
	res := &Result{}
	s := &sizes{o.Scale}
	for i, of := range []func(Options, *sizes, string) world{searching, ignoring, grepping, walking, generated, existing, storing, copying, duplicating} {
		dir := filepath.Join(o.Dir, strconv.Itoa(i))
		w := of(o, s, dir)
		if w.rows = wanted(w.rows, o.Only); len(w.rows) == 0 {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		res.Rows = append(res.Rows, w.measure(ctx, o.Rounds)...)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if len(res.Rows) > 0 {
		res.Notes = notes()
	}
	held, err := holding(ctx, o, s, filepath.Join(o.Dir, "memory"))
	if err != nil {
		return nil, err
	}
	res.Memory = held
	return res, nil
}

func wanted(rows []row, only func(string) bool) (kept []row) {
	for _, r := range rows {
		if only(r.name) {
			kept = append(kept, r)
		}
	}
	return kept
}

// sizes gives the sizes of the trees.
type sizes struct{ scale float64 }

func (s *sizes) of(n int) int { return max(10, int(math.Round(float64(n)*s.scale))) }

func (s *sizes) searched() int { return s.of(100_000) }
func (s *sizes) grepped() int  { return s.of(50_000) }
func (s *sizes) walked() int   { return s.of(20_000) }
func (s *sizes) tracked() int  { return s.of(50_000) }
func (s *sizes) stored() int   { return s.of(10_000) }
func (s *sizes) copied() int   { return s.of(10_000) }
func (s *sizes) mounts() int   { return s.of(10_000) }
func (s *sizes) nodes() int    { return s.of(100_000) }

// storedSize is the size of a stored file in bytes: 10,000 of them make 1 GiB.
const storedSize = 1 << 30 / 10_000

// count formats n with commas.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// amount formats a number of bytes.
func amount(n int64) string {
	if n >= 1<<29 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

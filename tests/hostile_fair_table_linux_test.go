package tests

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// fairOutcome is the result of a row.
type fairOutcome struct {
	row *fairRow

	calm, attacked, beside phaseTimes // of the honest guest: alone, beside the attack, beside a harmless guest
	did, same              attackerDid
	last                   attackerDid // until it was killed, which is after its time was measured
	rate, sameRate         float64     // calls a second of the attack, and of the harmless guest

	peakMiB     int // resident memory
	threads     int // the most
	goroutines  int // the most
	operator    time.Duration
	operatorErr error
	gone        time.Duration // until a revoke had ended the attacker's connections
	back        time.Duration // until everything was as before
	stays       time.Duration // until everything except for directories that are kept open was as before; 0: never
	remains     string        // what was not as before

	seen string // the output of capd status --guests, in the middle

	mu     sync.Mutex
	broken []string // requirements of the row that did not hold
}

// fairTable is the table of the outcomes.
type fairTable struct{ all []*fairOutcome }

func (t *fairTable) add(o *fairOutcome) { t.all = append(t.all, o) }

// worst returns the longest time of any operation.
func (p phaseTimes) worst() (longest time.Duration) {
	for _, o := range p {
		longest = max(longest, quantile(o.Times, 1000))
	}
	return longest
}

// failures returns how many operations failed, and the first failure.
func (p phaseTimes) failures() (n int, first string) {
	for _, what := range opKinds {
		if o := p[what]; o != nil && o.Failed > 0 {
			if n += o.Failed; first == "" {
				first = o.First
			}
		}
	}
	return n, first
}

// times returns the p50, the p99 and the longest time of one kind of operation.
func (p phaseTimes) times(what string) string {
	o := p[what]
	if o == nil || len(o.Times) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s %s", brief(quantile(o.Times, 500)), brief(quantile(o.Times, 990)), brief(quantile(o.Times, 1000)))
}

// ratio returns the p99 beside the attack divided by the p99 beside a harmless guest, or
// 0 if nothing was measured.
func (o *fairOutcome) ratio(what string) float64 {
	bad, good := o.attacked[what], o.beside[what]
	if bad == nil || good == nil || len(bad.Times) == 0 || len(good.Times) == 0 {
		return 0
	}
	return float64(quantile(bad.Times, 990)) / float64(quantile(good.Times, 990))
}

func (o *fairOutcome) ratios() string {
	var all []string
	for _, what := range opKinds {
		all = append(all, factor(o.ratio(what)))
	}
	return strings.Join(all, " ")
}

func factor(x float64) string {
	switch {
	case x == 0:
		return "-"
	case x < 9.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// brief formats a time as three or four characters and a unit.
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2gms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// mostMiB returns the aim for the host's resident memory.
func (r *fairRow) mostMiB() int { return aimMiB + aimMiBEach*max(1, r.grants) }

// missed returns the aims that the row has missed.
func (o *fairOutcome) missed() (all []string) {
	miss := func(missed bool, format string, args ...any) {
		if missed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	for _, what := range opKinds {
		x := o.ratio(what)
		miss(x > aimRatio, "%s ×%s", what, factor(x))
	}
	miss(o.attacked.worst() > aimLongest, "longest %s", brief(o.attacked.worst()))
	n, _ := o.attacked.failures()
	miss(n > 0, "%d failed", n)
	miss(o.operator > aimLongest, "operator %s", brief(o.operator))
	miss(o.peakMiB > o.row.mostMiB() && !raceBuilt, "%d of %d MiB", o.peakMiB, o.row.mostMiB())
	miss(o.threads >= aimThreads, "%d threads", o.threads)
	miss(o.gone > aimLongest, "gone after %s", brief(o.gone))
	miss(o.back > aimBack, "back after %s %s", brief(o.back), o.remains)
	return all
}

// judge notes the requirements of the row that did not hold.
func (o *fairOutcome) judge() {
	fail := func(failed bool, format string, args ...any) {
		if failed {
			o.broken = append(o.broken, fmt.Sprintf(format, args...))
		}
	}
	n, first := o.attacked.failures()
	fail(n > 0, "%d honest operations failed; %s", n, first)
	fail(o.attacked.worst() > mostWait, "an honest operation took %v", o.attacked.worst())
	fail(o.operatorErr != nil, "the operator's status: %v", o.operatorErr)
	fail(o.peakMiB > o.row.mostMiB() && !raceBuilt, "the host came to %d MiB, and may to %d", o.peakMiB, o.row.mostMiB())
	fail(o.threads >= aimThreads, "the host came to %d threads, and may to %d", o.threads, aimThreads)
	fail(o.back > 0 && o.stays == 0, "%v after the attack there are %s", o.back.Round(time.Second), o.remains)
}

// detail returns what the table leaves out.
func (o *fairOutcome) detail() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the attacker: %d connections, %d ended, %d calls answered", o.did.Conns, o.did.Ended, o.did.Calls)
	for _, code := range slices.Sorted(maps.Keys(o.did.Refused)) {
		fmt.Fprintf(&b, ", %d %s", o.did.Refused[code], code)
	}
	fmt.Fprintf(&b, "; the harmless guest: %.0f calls/s of %.0f; the operator waited %v at most", o.sameRate, o.rate, o.operator.Round(time.Microsecond))
	for _, phase := range []struct {
		name string
		of   phaseTimes
	}{{"calm", o.calm}, {"harmless", o.beside}, {"attack", o.attacked}} {
		fmt.Fprintf(&b, "\n%-8s", phase.name)
		for _, what := range opKinds {
			if t := phase.of[what]; t != nil {
				fmt.Fprintf(&b, "  %s %s of %d", what, phase.of.times(what), len(t.Times))
				if t.Again > 0 {
					fmt.Fprintf(&b, ", %d sent away", t.Again)
				}
			}
		}
		if n, first := phase.of.failures(); n > 0 {
			fmt.Fprintf(&b, "  %d failed: %s", n, first)
		}
	}
	for _, what := range o.missed() {
		fmt.Fprintf(&b, "\nMISSED: %s", what)
	}
	if o.seen != "" {
		fmt.Fprintf(&b, "\nin the middle of it, capd status --guests --json:\n%s", o.seen)
	}
	return b.String()
}

// print prints a line for each row: the honest guest's times beside the attack (p50, p99
// and longest), the ratio of its p99 to the one beside a harmless guest, and what the
// host used.
func (t *fairTable) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tcalls/s\tread p50 p99 max\tput p50 p99 max\tdial p50 p99 max\tp99 ×\tlongest\tfailed\tMiB\tthreads\tgoroutines\tback\tMISSED")
	held := 0
	for _, o := range t.all {
		missed := slices.Concat(o.missed(), o.crash())
		if len(missed) == 0 {
			held++
		}
		n, _ := o.attacked.failures()
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", o.row.name, o.rate, o.attacked.times("read"), o.attacked.times("put"),
			o.attacked.times("dial"), o.ratios(), brief(o.attacked.worst()), n, o.peakMiB, o.threads, o.goroutines, brief(o.back), strings.Join(missed, ", "))
	}
	w.Flush()
	fmt.Fprintf(out, "hostile rows beside an honest guest: %d of %d reach every aim\n", held, len(t.all))
}

// crash returns why the host has ended, if it has.
func (o *fairOutcome) crash() []string {
	for _, what := range o.broken {
		if strings.Contains(what, "crash") {
			return []string{"CRASHED"}
		}
	}
	return nil
}

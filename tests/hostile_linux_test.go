package tests

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client/console"
	"capd/locator"
	"capd/operator"
)

// A hostileRow is one attack: what guests do to the host again and again, for a
// moment, and the required result.
type hostileRow struct {
	name string
	must string // the required result, in words
	do   func(a *assault)

	once  bool          // it is not repeated
	room  int           // by how many MiB the host may grow during it; 0: not checked
	later func() string // returns what is wrong at the end of the suite; "" means nothing
}

// siege returns how long an attack is repeated: not at all, or for a while.
func siege() time.Duration { return time.Duration(times(0, 30)) * time.Millisecond }

// slack is what may remain after all attacks. The host keeps the digests of revoked
// grants, and its runtime keeps threads and pools.
const (
	slackHeap       = 8 << 20
	slackGoroutines = 2
	slackFiles      = 4
	slackResident   = 160 << 20
)

// fair is how much worse an honest guest's p99 may be beside an attack than beside a
// harmless guest that keeps the host as busy.
const fair = 5.0

// attempts is how often what was measured must be too much before it counts: memory
// during an attack, and the comparison. Both depend on what else the machine does.
const attempts = 3

// fewestRows is the least number of kinds of attack.
const fewestRows = 155

// besieged is the result of TestHostile and TestHostileIsOver.
var besieged struct {
	*suite
	unharmed bool
	failed   bool
	over     bool
	left     int // what the attacks have left
}

// TestHostile attacks the real program over the wire, row by row, while an honest
// guest works beside it in a process of its own. The honest guest must never fail,
// and must hardly be slower than beside a harmless guest. That is not measured in a
// plain run, beside other tests.
func TestHostile(t *testing.T) {
	if hurried() { // whose times say nothing
		t.Parallel()
	}
	lasts := &beyond{TB: t}
	atEnd = append(atEnd, lasts.end, sayHostile)
	s := newSuite(lasts)
	// Rows that open directories go first: the host keeps these for some seconds.
	rows := slices.Concat(lastingAttacks(), hoards(), sharedHoards(), objectAttacks(), sinkAttacks(), protocolAttacks(), frameAttacks())
	if len(rows) < fewestRows {
		t.Errorf("there are %d attacks, of %d", len(rows), fewestRows)
	}
	for i := range rows {
		s.row(t, &rows[i])
	}
	if names := slices.Collect(maps.Keys(s.tried)); len(names) < len(rows) && !picked() {
		t.Errorf("%d of %d attacks were tried: two have one name, or some were not", len(names), len(rows))
	}
	for i := range rows {
		if f := rows[i].later; f != nil && s.tried[rows[i].name] {
			if what := f(); what != "" {
				t.Errorf("%s: %s", rows[i].name, what)
			}
		}
	}
	besieged.unharmed = s.compare(t, rows)
	s.honest.enter(t, resting)
	besieged.suite, besieged.failed = s, t.Failed()
	if hurried() {
		s.isOver(t)
	}
}

// picked reports whether the command line selects only some subtests.
func picked() bool {
	return strings.Contains(flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String(), "/")
}

// TestHostileIsOver checks that nothing is left of the attacks. The host keeps
// directories open for some seconds after their use; other tests run meanwhile.
func TestHostileIsOver(t *testing.T) {
	if hurried() { // TestHostile has checked it, beside other tests
		return
	}
	t.Parallel()
	if besieged.suite == nil {
		t.Fatal("there were no attacks, or not all of them: run TestHostile too")
	}
	besieged.isOver(t)
}

func (s *suite) isOver(t *testing.T) {
	s.lasts.TB = t
	defer s.lasts.end()
	besieged.left = len(s.leaks(t))
	s.crashes(t)
	before := s.honest.total
	if !waitFor(patience, func() bool { return s.honest.enter(t, idle).Total > before }) {
		t.Error("the honest guest does nothing any more")
	}
	besieged.unharmed = besieged.unharmed && s.honest.enter(t, resting).Failed == ""
	besieged.failed = besieged.failed || t.Failed()
	besieged.over = true
}

// sayHostile prints the result of TestHostile and TestHostileFair, if both have run.
func sayHostile() {
	if !besieged.over {
		return
	}
	harm, failed := "unharmed", ""
	if !besieged.unharmed {
		harm = "harmed"
	}
	if besieged.failed || besideRivals.failed > 0 {
		failed = fmt.Sprintf("FAILED, %d of ", len(besieged.suite.failed)+besideRivals.failed)
	}
	fmt.Printf("hostile: %s%d attacks, %d crashes, %d leaks, honest guest %s\n", failed, len(besieged.tried)+besideRivals.tried,
		besieged.crashed+besideRivals.crashed, besieged.left, harm)
}

// beyond is a test object for work that goes on after the test, until end.
type beyond struct {
	testing.TB
	ends []func()
}

func (l *beyond) Cleanup(f func()) { l.ends = append(l.ends, f) }

func (l *beyond) end() {
	for ; len(l.ends) > 0; l.ends = l.ends[:len(l.ends)-1] {
		l.ends[len(l.ends)-1]()
	}
}

// suite is a host under attack, and those who use it meanwhile.
type suite struct {
	*hostProcess
	console *console.Console
	honest  *honest
	busy    *busy
	lasts   *beyond

	before  footprint // of the host before anything
	tried   map[string]bool
	failed  map[string]bool
	crashed int
	seen    int // how much of the host's log was read
	evil    locator.Locator
}

// footprint is what the host holds.
type footprint struct {
	operator.Status
	usage
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB heap, %d goroutines, %d nodes, %d streams, %v", float64(f.HeapBytes)/(1<<20), f.Goroutines, f.OpenNodes, f.Streams, f.usage)
}

func newSuite(t *beyond) *suite {
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	h.layHonest()
	h.layHostile()
	s := &suite{hostProcess: h, console: h.console(), lasts: t, tried: map[string]bool{}, failed: map[string]bool{}}
	honestLoc, _, ctl := h.grant("honest", "")
	t.Cleanup(func() { ctl.Close() })
	busyLoc, _, ctl := h.grant("busy", "")
	t.Cleanup(func() { ctl.Close() })
	s.honest = startHonest(t, honestLoc)
	s.busy = startBusy(h, busyLoc)
	s.busy.keep(500*time.Millisecond, time.Second) // so that everything that the host makes only once exists
	s.before = s.footprint(t)
	t.Logf("before: %v", s.before)
	return s
}

// layHostile makes the files that attackers use, below project/hostile.
func (p *place) layHostile() {
	p.Helper()
	dir := filepath.Join(p.served, "hostile")
	ok(p, os.MkdirAll(filepath.Join(dir, "many"), 0o755))
	ok(p, os.WriteFile(filepath.Join(dir, "f"), pattern(0, 4<<10), 0o644))
	ok(p, os.WriteFile(filepath.Join(dir, "big"), pattern(0, 2<<20), 0o644))
	ok(p, os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644))
	for i := range 400 {
		sub := filepath.Join(dir, "many", fmt.Sprintf("d%03d", i))
		ok(p, os.Mkdir(sub, 0o755))
		for j := range 10 {
			ok(p, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%02d", j)), nil, 0o644))
		}
	}
	ok(p, os.WriteFile(filepath.Join(dir, "four"), pattern(0, 4<<20), 0o644))
}

// footprint collects the host's garbage, and returns what the host holds.
func (s *suite) footprint(t testing.TB) footprint {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := s.console.Status(ctx, true)
	ok(t, err)
	return footprint{st, usageOf(&testing.T{}, s.pid())}
}

// row tries one attack, and then has the host be as busy with a harmless guest.
func (s *suite) row(t *testing.T, r *hostileRow) {
	if !t.Run(r.name, func(t *testing.T) {
		s.tried[r.name] = true
		if r.must == "" {
			t.Error("the row does not say what must happen")
		}
		for n := 1; ; n++ {
			grew := s.try(t, r)
			if r.room == 0 || grew <= r.room || raceBuilt {
				break
			}
			if n == attempts {
				t.Errorf("the host grew by %d MiB, and may by %d", grew, r.room)
				break
			}
		}
	}) {
		s.failed[r.name] = true
	}
	s.crashes(t)
}

// try tries one attack, and returns by how many MiB the host grew meanwhile.
func (s *suite) try(t *testing.T, r *hostileRow) int {
	_, loc, ctl, err := s.console.Grant(t.Context(), "evil", "", false)
	ok(t, err)
	s.evil, err = locator.Parse(loc)
	ok(t, err)

	began := usageOf(t, s.pid())
	held := s.held()
	s.honest.enter(t, attacked)
	at, cpu, tries := time.Now(), cpuOf(s.hostProcess), 0
	a := &assault{TB: t, suite: s}
	t.Cleanup(a.leave)
	for tries == 0 || !r.once && !t.Failed() && time.Since(at) < siege() {
		a.round = tries
		r.do(a)
		a.leave()
		tries++
	}
	grew := (a.peak - began.rssKB) >> 10
	settled := s.settle(held + a.keeps)
	took, spent := time.Since(at), cpuOf(s.hostProcess)-cpu
	honest := s.honest.enter(t, idle)

	s.serves(t)
	_, err = s.console.Revoke(t.Context(), "evil")
	ok(t, err)
	ok(t, ctl.Close())
	if !settled {
		t.Errorf("the host has %d descriptors, and had %d", s.held(), held)
	}
	now := s.footprint(t)

	var same time.Duration
	var beside span
	if !hurried() {
		s.honest.enter(t, shared)
		same = s.busy.keep(took, spent)
		beside = s.honest.enter(t, idle)
	}
	t.Logf("%d times in %v, %v of the host's time (harmless: %v), +%d MiB; the honest guest's p99 %v of %d (beside a harmless one: %v of %d); then %v",
		tries, took.Round(time.Millisecond), spent, same, grew, quantile(honest.Times, 990), honest.Ops, quantile(beside.Times, 990), beside.Ops, now)
	return grew
}

// settle waits for the host to have let go of the attackers' descriptors.
func (s *suite) settle(held int) bool {
	return waitFor(patience, func() bool { return s.held() <= held+slackFiles })
}

// held counts the host's descriptors, but for those of the tree that it serves: it
// keeps these open for some seconds after they were used.
func (h *hostProcess) held() (n int) {
	dir := "/proc/" + h.pid() + "/fd/"
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if to, err := os.Readlink(dir + e.Name()); err == nil && !strings.HasPrefix(to, h.served) {
			n++
		}
	}
	return n
}

// serves says that a new guest is served.
func (s *suite) serves(t *testing.T) {
	t.Helper()
	c := dial(t, s.locator)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := c.Dir(ctx).OpenFile("project/hostile/f")
	defer f.Close()
	b, _, err := f.ReadBytes(ctx)
	ok(t, err)
	ok(t, same(b, pattern(0, 4<<10)))
}

// crashes counts the panics that the host has logged, and its end.
func (s *suite) crashes(t *testing.T) int {
	t.Helper()
	log := s.log.String()
	if news := log[s.seen:]; strings.Contains(news, "panic") || strings.Contains(news, "DATA RACE") || strings.Contains(news, "fatal error") {
		s.crashed++
		t.Errorf("the host logs: %s", head(news))
	}
	s.seen = len(log)
	return s.crashed
}

// compare holds the honest guest's p99 against that beside a harmless guest, over
// all rows. What is noise does not come three times.
func (s *suite) compare(t *testing.T, rows []hostileRow) bool {
	if hurried() {
		return true
	}
	for n := 1; ; n++ {
		bad, good := s.honest.spent[attacked], s.honest.spent[shared]
		if len(bad) < 1000 || len(good) < 1000 {
			t.Errorf("vacuous: %d and %d operations", len(bad), len(good))
			return false
		}
		ratio := float64(quantile(bad, 990)) / float64(quantile(good, 990))
		fmt.Printf("the honest guest beside attacks: p50 %v, p99 %v of %d; beside a harmless guest: p50 %v, p99 %v of %d; p99 ratio %.2f\n",
			quantile(bad, 500), quantile(bad, 990), len(bad), quantile(good, 500), quantile(good, 990), len(good), ratio)
		if ratio <= fair {
			return true
		}
		if n == attempts {
			t.Errorf("the honest guest's p99 is %.1f times what it is beside a harmless guest", ratio)
			return false
		}
		s.honest.spent = map[string][]time.Duration{}
		for i := range rows {
			if rows[i].later == nil && s.tried[rows[i].name] {
				s.row(t, &rows[i])
			}
		}
	}
}

// leaks says what the attacks have left in the host.
func (s *suite) leaks(t *testing.T) []string {
	var left []string
	var now footprint
	waitFor(2*patience, func() bool { // with the time for which directories are kept open
		now, left = s.footprint(t), nil
		note := func(what string, have, had, slack int64) {
			if have > had+slack {
				left = append(left, fmt.Sprintf("%s: %d, and %d before", what, have, had))
			}
		}
		b := s.before
		note("bytes of heap", int64(now.HeapBytes), int64(b.HeapBytes), slackHeap)
		note("goroutines", int64(now.Goroutines), int64(b.Goroutines), slackGoroutines)
		note("descriptors", int64(now.files), int64(b.files), slackFiles)
		if !raceBuilt { // the detector keeps a shadow of all memory that was ever used
			note("KiB resident", int64(now.rssKB), int64(b.rssKB), slackResident>>10)
		}
		note("open nodes", now.OpenNodes, b.OpenNodes, 8) // the honest guest's come and go
		note("streams", now.Streams, b.Streams, 2)
		if len(left) > 0 {
			time.Sleep(500 * time.Millisecond)
		}
		return len(left) == 0
	})
	t.Logf("after: %v", now)
	fmt.Printf("the host before: %v\nthe host after:  %v\n", s.before, now)
	for _, what := range left {
		t.Errorf("left behind: %s", what)
	}
	s.noStagedFiles()
	return left
}

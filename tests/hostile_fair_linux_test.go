package tests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client/console"
	"capd/locator"
	"capd/operator"
	"capd/tests/slowfs"
)

// A fairRow is one attack on what guests share. A process takes as much as it can
// from the host, and an honest guest beside it is measured.
type fairRow struct {
	name   string
	conns  int // connections of the attacker, over all its grants
	grants int // that the attacker has; 0: one

	lay     func(tr *trial)    // makes what the attack uses, before the host starts
	ready   func(tr *trial)    // likewise, when the host serves
	attack  func(a *aggressor) // what the attacker does
	alike   func(a *aggressor) // the same kind of calls by a harmless guest; nil: reads
	begins  func(tr *trial)    // runs when the attacker is ready
	during  func(tr *trial)    // runs in the middle of the attack
	over    func(tr *trial)    // runs when the attacker has ended
	guest   string             // where the honest guest works; "": in project/honest
	files   int                // how many descriptors the host may have; 0: as many as the system allows
	revoked bool               // the attacker's grants are revoked during the attack
	shared  bool               // the attacker's grant is shared by the honest guest
	crowded bool               // strangers come in such numbers that an honest guest may have to connect again
	large   bool               // skipped in a plain run: a smaller row stands for it
	yet     string             // what the row is known to miss; "": every failure counts
}

// The aims of fairness. The table shows a missed aim; the test does not fail.
const (
	aimRatio   = 10.0             // of the honest guest's p99 beside the attack to that beside a harmless guest
	aimLongest = time.Second      // for an honest operation
	aimBack    = 10 * time.Second // until everything is as before
	aimThreads = 500
	aimMiB     = 64  // resident, plus
	aimMiBEach = 128 // for each grant of the attacker
)

// Bounds that each row must keep, however busy the machine is.
const (
	mostWait = 20 * time.Second // for an operation of the honest guest or the operator
	mostBack = 30 * time.Second // until everything is as before
)

// fewestFairRows is the least number of rows.
const fewestFairRows = 34

var fairFor = flag.Duration("hostile.for", 0, "how long each row of TestHostileFair attacks (default: a moment)")

// fairTimes returns how long the phases of a row last.
func fairTimes() (calm, attack, harmless time.Duration) {
	switch {
	case *fairFor > 0:
		return *fairFor / 3, *fairFor, *fairFor / 2
	case !hurried():
		return 200 * time.Millisecond, 600 * time.Millisecond, 300 * time.Millisecond
	}
	return 0, 120 * time.Millisecond, 0
}

// size chooses how much a row prepares: little in a plain run, and all if there is
// time.
func size(little, much, all int) int {
	switch {
	case *fairFor > 0:
		return all
	case !hurried():
		return much
	}
	return little
}

// besideRivals is the result of TestHostileFair.
var besideRivals struct{ tried, crashed, failed int }

// TestHostileFair attacks what guests share, row by row, each on a new host. It
// prints how an honest guest fares beside it. Times are shown but not asserted. A
// row fails if the host crashes, if an honest operation fails or hangs, if memory
// or threads exceed their bounds, or if something is left.
func TestHostileFair(t *testing.T) {
	if hurried() {
		t.Parallel()
	}
	rows := fairRows()
	if len(rows) < fewestFairRows {
		t.Errorf("there are %d rows, of %d", len(rows), fewestFairRows)
	}
	table := &fairTable{}
	besideRivals = struct{ tried, crashed, failed int }{}
	names := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if names[r.name] {
			t.Errorf("two rows are called %q", r.name)
		}
		names[r.name] = true
		if r.large && hurried() {
			continue
		}
		besideRivals.tried++
		if !t.Run(r.name, func(t *testing.T) {
			table.add(r.try(t))
		}) {
			besideRivals.failed++
		}
	}
	table.print(os.Stdout)
}

// try runs a row and judges it.
func (r *fairRow) try(t *testing.T) *fairOutcome {
	tr := &trial{row: r, fairOutcome: &fairOutcome{row: r}}
	tr.TB = &patient{beyond: beyond{TB: t}, trial: tr}
	tr.run()
	tr.TB.(*patient).end()
	tr.judge()
	if strings.Contains(strings.Join(tr.broken, " "), "crash") {
		besideRivals.crashed++
	}
	for _, what := range tr.broken {
		if r.yet != "" {
			t.Logf("not held yet (%s): %s", r.yet, what)
		} else {
			t.Errorf("%s", what)
		}
	}
	t.Log(tr.detail())
	return tr.fairOutcome
}

// trial is one running row.
type trial struct {
	testing.TB
	*fairOutcome
	row  *fairRow
	host *hostProcess
	op   *console.Console

	honestLoc string
	evil      []string // the attacker's locators
	guest     *rival
	attacker  *rival
	slow      *slowfs.FS

	before       footprint
	held, thread int // of the host, before the row
}

// patient notes failures instead of ending the test at once, so that a row shows
// all of its results.
type patient struct {
	beyond
	trial *trial
}

func (p *patient) Errorf(format string, args ...any) { p.trial.breaks(format, args...) }

func (tr *trial) breaks(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.broken = append(tr.broken, head(fmt.Sprintf(format, args...)))
}

func (tr *trial) run() {
	calm, attack, harmless := fairTimes()
	tr.serve()
	tr.guest = startRival(tr, "fair-honest", tr.honestLoc, tr.place(), fmt.Sprint(tr.row.crowded))
	tr.guest.tell("idle")
	tr.begin()
	tr.guest.tell("calm")
	time.Sleep(calm)
	tr.guest.tell("idle").into(&tr.calm)
	if !tr.assault(attack) {
		return
	}
	tr.wait()
	if harmless > 0 {
		tr.harmless(harmless)
	}
}

// serve starts the host and makes everybody's grants.
func (tr *trial) serve() {
	p := newPlaceInMemory(tr.TB)
	tr.host = &hostProcess{place: p}
	if tr.row.lay != nil {
		tr.row.lay(tr)
	}
	cmd := execCapd(tr)
	if n := tr.row.files; n > 0 {
		cmd = execCapdWith(tr, fmt.Sprintf("ulimit -n %d", n))
	}
	tr.host = serveAt(p, cmd)
	tr.op = tr.host.console()
	_, loc, ctl, err := tr.op.Grant(context.Background(), "honest", "", false)
	ok(tr, err)
	tr.Cleanup(func() { ctl.Close() })
	tr.honestLoc = loc
	if tr.row.ready != nil {
		tr.row.ready(tr)
	}
	tr.evil = tr.evilLocators()
}

// evilLocators returns the attacker's locators: of grants of its own, or of a share
// of the honest guest's.
func (tr *trial) evilLocators() (locs []string) {
	if tr.row.shared {
		conn, top := guestOf(tr.honestLoc)
		tr.Cleanup(func() { conn.Close() })
		loc, _, err := conn.Share(context.Background(), top)
		ok(tr, err)
		return []string{loc}
	}
	for i := range max(1, tr.row.grants) {
		_, loc, ctl, err := tr.op.Grant(context.Background(), fmt.Sprintf("evil%d", i), "", false)
		ok(tr, err)
		ctl.Close()
		locs = append(locs, loc)
	}
	return locs
}

// place is where the honest guest works.
func (tr *trial) place() string {
	if tr.row.guest != "" {
		return tr.row.guest
	}
	return "project/honest"
}

// execCapdWith is execCapd after a shell command.
func execCapdWith(tr *trial, before string) *exec.Cmd {
	script := filepath.Join(tr.host.base, "capd.sh")
	ok(tr, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\n%s\nexec %q \"$@\"\n", before, capd(tr)), 0o755))
	return exec.Command(script)
}

// assault runs the attacker for a while, and reports whether the host is still
// there.
func (tr *trial) assault(lasts time.Duration) bool {
	tr.attacker = startRival(tr, "fair-attack", append([]string{tr.row.name, "attack", "0", fmt.Sprint(tr.row.conns)}, tr.evil...)...)
	tr.attacker.ready()
	if tr.row.begins != nil {
		tr.row.begins(tr)
	}
	stop := tr.watch()
	tr.guest.tell("attack")
	tr.attacker.tell("go")
	begun := time.Now()
	time.Sleep(lasts / 2)
	if tr.row.during != nil {
		tr.row.during(tr)
	}
	time.Sleep(lasts - min(lasts, time.Since(begun)))
	tr.attacker.tell("count").into(&tr.did)
	tr.rate = float64(tr.did.Calls) / time.Since(begun).Seconds()
	tr.guest.tell("idle").into(&tr.attacked)
	stop()
	tr.attacker.tell("hold").into(&tr.last)
	tr.attacker.kill()
	if tr.row.over != nil {
		tr.row.over(tr)
	}
	if tr.peakMiB = statusOf(tr.host.pid(), "VmHWM") >> 10; tr.peakMiB == 0 { // an ended process has none
		tr.breaks("the host crashed: %s", head(crashOf(tr.host.log.String())))
		return false
	}
	return true
}

// harmless runs a guest that makes as many calls as the attacker did, on one
// connection and with nothing odd.
func (tr *trial) harmless(lasts time.Duration) {
	loc := tr.evil[0]
	if tr.row.revoked {
		_, fresh, ctl, err := tr.op.Grant(context.Background(), "harmless", "", false)
		if err != nil {
			tr.breaks("a grant after the attack: %v", err)
			return
		}
		ctl.Close()
		loc = fresh
	}
	a := startRival(tr, "fair-attack", tr.row.name, "harmless", fmt.Sprint(max(1, tr.rate)), "1", loc)
	a.ready()
	tr.guest.tell("harmless")
	a.tell("go")
	begun := time.Now()
	time.Sleep(lasts)
	a.tell("count").into(&tr.same)
	tr.sameRate = float64(tr.same.Calls) / time.Since(begun).Seconds()
	tr.guest.tell("idle").into(&tr.beside)
	a.kill()
}

// mount mounts a store.
func (tr *trial) mount(path, url string) {
	fs, err := tr.op.VirtualFs(context.Background())
	ok(tr, err)
	defer fs.Close()
	ok(tr, fs.Mount(context.Background(), path, url, operator.Attenuation{}))
}

// revokeAll revokes the attacker's grants.
func (tr *trial) revokeAll() {
	for i := range max(1, tr.row.grants) {
		if _, err := tr.op.Revoke(context.Background(), fmt.Sprintf("evil%d", i)); err != nil {
			tr.breaks("revoke: %v", err)
		}
	}
}

func parseAll(locs []string) (all []locator.Locator) {
	for _, s := range locs {
		l, err := locator.Parse(s)
		if err != nil {
			panic(err)
		}
		all = append(all, l)
	}
	return all
}

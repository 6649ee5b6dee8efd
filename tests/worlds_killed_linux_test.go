package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// killing describes a kind of work that is killed before it ends, and what may be
// left.
type killing struct {
	name string
	// sign is a pattern of paths. When more paths match it than before, the work has
	// begun to change something.
	sign string
	// prepare makes the estate with which every round begins. It remembers the tree
	// before the work and after it.
	prepare func(k *killed)
	// begin prepares the work. It returns a function that does the work and one that
	// kills it. The work returns an error unless it was done.
	begin func(r *round) (work func() error, kill func())
	// anew, if not nil, starts again after the kill. Otherwise a host is started.
	anew func(r *round) *exec.Cmd
	// after checks what is there after the new start, and reports whether the work
	// was done. Work that was answered must be done.
	after func(r *round) (done bool)
}

// killed is a test of one kind of work.
type killed struct {
	killing
	*estate
	before, model picture // of what the work changes, before and after it
	digest        string  // of what it stores
	settled       int     // batches that were settled after a kill
}

// round is one kill, in an estate of its own.
type round struct {
	*estate
	*killed
	signs    int  // paths that match sign before the work
	answered bool // the work was answered before the kill
}

var killings = []killing{applying, undoing, reverting, syncing, moving, snapshotting, materializing}

// TestWorldsKilled kills the real program with kill -9 at moments during all of its
// work. After a new start, the work is either completely done or completely undone.
// No file is lost, and nothing else is left behind.
func TestWorldsKilled(t *testing.T) {
	t.Parallel()
	rounds := times(5, 12)
	if n, err := strconv.Atoi(os.Getenv("CAPD_KILLS")); err == nil { // for a run over night
		rounds = n
	}
	capd(t)
	t.Cleanup(worldsSeen.report) // after the parallel tests
	for _, k := range killings {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.test(t, rounds)
		})
	}
}

func (k killing) test(t *testing.T, rounds int) {
	dir := newPlaceInMemory(t).base
	all := &killed{killing: k, estate: &estate{t, filepath.Join(dir, "0")}}
	ok(t, os.Mkdir(all.dir, 0o755))
	k.prepare(all)
	worldsSeen.count(&worldsSeen.works, 1)

	took, changes := all.uninterrupted(dir)
	end := edge{at: took, step: took / 4}
	done, answered := 0, 0
	vacuous := func(n int) bool {
		return done == 0 || done == n || answered > n*3/4 || k.sign == intents && all.settled == 0
	}
	// If all instants were before or all after the end of the work, more are tried.
	n := 0
	for i := 0; i < rounds || vacuous(n) && i < 6*rounds; i++ {
		n++
		r := all.round(filepath.Join(dir, fmt.Sprint(i+1)))
		// A third of the instants are spread over the whole work. A third are spread
		// over the part that changes something. A third are near the moment in which
		// the work becomes done.
		m, atEnd := instant{again: i%4 == 3}, false
		part := (float64(i%rounds) + rand.Float64()) / float64(rounds) * float64(end.at)
		switch {
		case i%3 == 0:
			m.after = time.Duration(part * 1.1)
		case i%3 == 1 && k.sign != "":
			m.sign, m.after = true, time.Duration(part*float64(changes)/float64(took))
		default:
			m.after, atEnd = end.at, true
		}
		isDone := r.kill(m)
		if isDone {
			done++
		}
		if atEnd {
			end.learn(isDone)
		}
		if r.answered {
			answered++
		}
		if t.Failed() {
			t.Fatalf("killed at %+v of %v, %v", m, took, changes)
		}
		ok(t, os.RemoveAll(r.dir))
	}
	t.Logf("killed %d times within %v: it was done %d times, %d of these it had said so; %d batches were settled",
		n, took.Round(time.Millisecond), done, answered, all.settled)
	if vacuous(n) {
		t.Errorf("vacuous: of %d times it was done %d times, had said so %d times, and left %d batches to be settled", n, done, answered, all.settled)
	}
}

// edge is the estimated moment in which the work becomes done.
type edge struct {
	at, step time.Duration
	last     bool
}

// learn moves the edge, depending on whether the work was done at the last kill. The
// steps become smaller after the edge was passed.
func (e *edge) learn(done bool) {
	if done != e.last {
		e.step = max(e.step/2, time.Millisecond)
	}
	if e.last = done; done {
		e.at = max(e.at-e.step, 0)
	} else {
		e.at += e.step
	}
}

// instant is when to kill: a time after the start of the work, or after its sign.
type instant struct {
	sign  bool
	after time.Duration
	again bool // the program that starts anew is killed, too, the first time
}

func (k *killed) round(dir string) *round {
	k.Helper()
	return &round{estate: k.estate.copy(k.TB, dir), killed: k}
}

// uninterrupted returns how long the work takes, from its start and from its sign.
func (k *killed) uninterrupted(dir string) (took, changes time.Duration) {
	k.Helper()
	r := k.round(filepath.Join(dir, "whole"))
	work, kill := k.begin(r)
	answer := r.start(work)
	begun := time.Now()
	r.awaitSign(answer)
	seen := time.Now()
	ok(k.TB, <-answer)
	took, changes = time.Since(begun), time.Since(seen)
	kill()
	r.answered = true
	if !k.after(r) {
		k.Fatal("it was answered and is not done")
	}
	return took, changes
}

// start starts the work.
func (r *round) start(work func() error) (answer chan error) {
	answer = make(chan error, 1)
	r.signs = r.count()
	go func() { answer <- work() }()
	return answer
}

func (r *round) count() int {
	found, _ := filepath.Glob(r.path(r.sign))
	return len(found)
}

// awaitSign waits for the sign, or until the work was answered.
func (r *round) awaitSign(answer chan error) {
	for r.sign != "" && len(answer) == 0 && r.count() <= r.signs {
		time.Sleep(100 * time.Microsecond)
	}
}

// kill kills the work at an instant, and reports whether it is done anyway.
func (r *round) kill(m instant) (done bool) {
	r.Helper()
	work, kill := r.begin(r)
	answer := r.start(work)
	if m.sign {
		r.awaitSign(answer)
	}
	time.Sleep(m.after)
	kill()
	worldsSeen.count(&worldsSeen.kills, 1)
	select {
	case err := <-answer:
		r.answered = err == nil
	case <-time.After(6 * patience):
		r.Fatal("it does not end, though who did it was killed")
	}
	if m.again {
		r.killAgain()
	}
	done = r.after(r)
	if r.answered && !done {
		r.torn("it was answered, and is not done")
	}
	return done
}

// killAgain kills the program that starts anew, while it settles what was left.
func (r *round) killAgain() {
	r.Helper()
	cmd := r.command("", "serve", "--config", "capd.yaml")
	if r.anew != nil {
		cmd = r.anew(r)
	}
	ok(r.TB, cmd.Start())
	time.Sleep(time.Duration(rand.Int64N(int64(settling))))
	cmd.Process.Kill()
	_ = cmd.Wait()
	worldsSeen.count(&worldsSeen.kills, 1)
}

// settling is roughly how long a host takes to settle what was left.
const settling = 60 * time.Millisecond

// whole checks that now is the state before the work or after it.
func (r *round) whole(now, before, after picture) (done bool) {
	r.Helper()
	d := before.differs(now)
	if d == "" {
		return false
	}
	if d2 := after.differs(now); d2 != "" {
		r.torn("it is neither as before: %.1000s; nor as after: %.1000s", d, d2)
	}
	return true
}

func (r *round) torn(format string, args ...any) {
	r.Helper()
	worldsSeen.count(&worldsSeen.torn, 1)
	r.Errorf(format, args...)
}

// again starts a host after a kill. It must settle everything.
func (r *round) again() *running {
	r.Helper()
	host := r.serve()
	r.heard(host.log.String())
	return host
}

// heard checks the log of a program that settled what another had left.
func (r *round) heard(log string) {
	r.Helper()
	n := settled(log)
	r.settled += n
	worldsSeen.count(&worldsSeen.settled, n)
	if unsettled.MatchString(log) {
		r.torn("it was not settled: %s", log)
	}
}

// clean checks that nothing is left behind when nothing runs.
func (r *round) clean() {
	r.Helper()
	if left := r.leftBehind(); len(left) > 0 {
		worldsSeen.count(&worldsSeen.left, len(left))
		r.Errorf("left behind: %q", left)
	}
}

// leftBehind returns what is in the state directory, and beside the served directory,
// that belongs to no process. Nothing must be running.
func (w *estate) leftBehind() []string {
	var all []string
	for _, pattern := range []string{
		"state/journal/*", "state/materialized/*", "state/cas/tmp/*", "state/cas/leases/*", "state/*.sock", "*/.capd-*", "*/*/.capd-*",
	} {
		left, _ := filepath.Glob(w.path(pattern))
		all = append(all, left...)
	}
	return all
}

// cli returns the work of one capd command.
func (r *round) cli(args ...string) func() error {
	cmd := r.command("", args...)
	return func() error {
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/locator"
)

func init() { others["fair-attack"] = fairAttack }

// attackerDid is an attacker's report.
type attackerDid struct {
	Calls   int64            `json:"calls"`   // calls that were answered
	Refused map[string]int64 `json:"refused"` // refused ones of these, by code
	Conns   int              `json:"conns"`   // connections that the attacker had when it began
	Ended   int64            `json:"ended"`   // connections of the attacker that ended
}

// aggressor is a guest that makes calls as fast as it can, or at a given rate. The calls
// are the row's attack, or those of a harmless guest.
type aggressor struct {
	alone
	row   *fairRow
	locs  []locator.Locator
	conns int
	rate  float64 // calls per second in all; 0: as many as possible

	waiting atomic.Int64  // how many of conns are ready, or have failed
	held    atomic.Int64  // how many of conns are ready
	start   chan struct{} // closed when the attack begins

	calls atomic.Int64
	ended atomic.Int64
	mu    sync.Mutex
	codes map[string]int64
	due   time.Time // when the next call is due, if there is a rate
}

// alone is the testing.TB of a peer outside a test. When it fails, its goroutine ends.
type alone struct{ testing.TB }

func (alone) Helper()               {}
func (alone) Errorf(string, ...any) {}
func (alone) Fatalf(string, ...any) { runtime.Goexit() }

// fairAttack is a process that attacks. Its arguments are the row's name, which part of
// the row to do, calls per second, the number of connections, and locators. It prints
// when it is ready, begins at "go", answers "count", and goes on until it is killed, or
// until "hold": then it counts no more answers, and makes no more calls than those that
// are under way.
func fairAttack(args []string) {
	rows := fairRows()
	r := &rows[slices.IndexFunc(rows, func(r fairRow) bool { return r.name == args[0] })]
	rate, _ := strconv.ParseFloat(args[2], 64)
	conns, _ := strconv.Atoi(args[3])
	a := &aggressor{row: r, locs: parseAll(args[4:]), conns: conns, rate: rate, start: make(chan struct{}), codes: map[string]int64{}}
	do := r.attack
	if args[1] == "harmless" {
		if do = r.alike; do == nil {
			do = readsBig
		}
	}
	go do(a)
	waitFor(20*time.Second, func() bool { return a.waiting.Load() >= int64(a.conns) })
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "go" {
			a.due = time.Now()
			close(a.start)
		}
		did := a.did()
		if in.Text() == "hold" {
			did = a.hold()
		}
		json.NewEncoder(os.Stdout).Encode(did)
	}
}

func (a *aggressor) did() attackerDid {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum()
}

// hold is did, and stops whoever counts an answer.
func (a *aggressor) hold() attackerDid {
	a.mu.Lock()
	return a.sum()
}

// sum returns the report. a.mu is held.
func (a *aggressor) sum() attackerDid {
	d := attackerDid{Calls: a.calls.Load(), Conns: int(a.held.Load()), Ended: a.ended.Load(), Refused: map[string]int64{}}
	for code, n := range a.codes {
		d.Refused[code] = n
	}
	return d
}

// each runs f on each of the attacker's connections, which are spread over its grants. f
// calls await when it is ready.
func (a *aggressor) each(f func(i int, g *grip)) {
	for i := range a.conns {
		go func() {
			g := &grip{a: a}
			defer g.over()
			if g.connect(a.locs[i%len(a.locs)]) {
				f(i, g)
			}
		}()
	}
	select {}
}

// grip is a connection of an attacker.
type grip struct {
	*peer
	a            *aggressor
	session, top uint32
	waited       bool
}

// dialling bounds how many connections are made at once. Of more that have restored
// nothing, the host drops the oldest.
var dialling = make(chan struct{}, 32)

// connect dials and restores. It tries again if the host's queue is full.
func (g *grip) connect(loc locator.Locator) bool {
	dialling <- struct{}{}
	defer func() { <-dialling }()
	var nc net.Conn
	waitFor(10*time.Second, func() (there bool) {
		var err error
		nc, err = net.Dial("unix", loc.Socket)
		return err == nil
	})
	if nc == nil {
		return false
	}
	g.peer = newPeer(g.a, nc)
	g.bootstrap(askedBoot)
	g.call(restore(askedTop, result(askedBoot), loc.Secret[:]))
	caps, _ := g.works(askedBoot)
	g.session = caps[0]
	caps, _ = g.works(askedTop)
	g.top = caps[0]
	return true
}

// open opens a file before the attack begins.
func (g *grip) open(path string) (file uint32) {
	g.call(openFile(askedFile, export(g.top), path))
	caps, _ := g.works(askedFile)
	return caps[0]
}

// await reports that a connection is ready, and waits until all begin.
func (g *grip) await() {
	g.waited = true
	g.a.held.Add(1)
	g.a.await()
}

func (a *aggressor) await() {
	a.waiting.Add(1)
	<-a.start
}

// over counts a connection that has ended.
func (g *grip) over() {
	if g.peer != nil {
		g.nc.Close()
	}
	if g.a.ended.Add(1); !g.waited {
		g.a.waiting.Add(1)
	}
}

// answered counts a call, and its code if it was refused.
func (a *aggressor) answered(r rpc.Return) {
	a.calls.Add(1)
	if r.Which() != rpc.Return_Which_exception {
		return
	}
	e, err := r.Exception()
	if err != nil {
		return
	}
	why, _ := e.Reason()
	code, _, _ := strings.Cut(strings.TrimPrefix(why, "capd: "), ":")
	a.mu.Lock()
	a.codes[code]++
	a.mu.Unlock()
}

// pace computes when the next n calls are due, and returns how long to wait.
func (a *aggressor) pace(n int) time.Duration {
	if a.rate == 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.due.Before(now.Add(-50 * time.Millisecond)) {
		a.due = now.Add(-50 * time.Millisecond) // missed calls are not made up for
	}
	wait := a.due.Sub(now)
	a.due = a.due.Add(time.Duration(float64(n) / a.rate * float64(time.Second)))
	return wait
}

// turns is a closed loop on one connection. Several groups of calls are made at once, and
// each again when all its calls were answered.
type turns struct {
	g      *grip
	window int
	calls  func(q uint32) []call // returns one group, whose calls have ids from q on
	keep   bool                  // keep the capabilities in answers
}

// spread is the distance between the ids of two groups.
const spread = 8

// loop goes on until the connection ends.
func (g *grip) loop(window int, calls func(q uint32) []call) {
	(&turns{g: g, window: window, calls: calls}).run()
}

// hoard is loop, and keeps the capabilities in answers.
func (g *grip) hoard(window int, calls func(q uint32) []call) {
	(&turns{g: g, window: window, calls: calls, keep: true}).run()
}

func (l *turns) run() {
	free, left := make(chan int, l.window), make([]int, l.window)
	body, after := make([][]byte, l.window), make([][]byte, l.window)
	for i := range l.window {
		for _, c := range l.calls(uint32(i) * spread) {
			body[i] = append(body[i], message(l.g, c.fill)...)
			after[i] = append(after[i], message(l.g, finished(c.q, !l.keep))...)
			left[i]++
		}
		free <- i
	}
	size := slices.Clone(left)
	l.g.await()
	gone := make(chan struct{})
	go l.write(free, gone, body, after, size)
	defer close(gone)
	l.g.nc.SetReadDeadline(time.Time{})
	for {
		r, there := l.g.returned()
		if !there {
			return
		}
		l.g.a.answered(r)
		i := int(r.AnswerId() / spread)
		r.Message().Release()
		if i >= l.window {
			continue
		}
		if left[i]--; left[i] == 0 {
			left[i] = size[i]
			free <- i
		}
	}
}

// write sends the free groups.
func (l *turns) write(free chan int, gone chan struct{}, body, after [][]byte, size []int) {
	w := bufio.NewWriterSize(l.g.nc, 64<<10)
	l.g.nc.SetWriteDeadline(time.Time{})
	again := make([]bool, l.window)
	for {
		var i int
		select {
		case i = <-free:
		case <-gone:
			return
		}
		if wait := l.g.a.pace(size[i]); wait > 0 {
			w.Flush()
			time.Sleep(wait)
		}
		if again[i] {
			w.Write(after[i])
		}
		again[i] = true
		if _, err := w.Write(body[i]); err != nil {
			return
		}
		if len(free) == 0 && w.Flush() != nil {
			return
		}
	}
}

// returned reads up to the next Return. there is false if the connection has ended.
func (g *grip) returned() (r rpc.Return, there bool) {
	for {
		msg, err := g.dec.Decode()
		if err != nil {
			return r, false
		}
		m, err := rpc.ReadRootMessage(msg)
		if err != nil {
			return r, false
		}
		if m.Which() == rpc.Message_Which_return {
			r, err = m.Return()
			return r, err == nil
		}
		msg.Release()
	}
}

// finished returns a Finish.
func finished(q uint32, releaseCaps bool) func(rpc.Message) error {
	return func(m rpc.Message) error {
		f, err := m.NewFinish()
		if err != nil {
			return err
		}
		f.SetQuestionId(q)
		f.SetReleaseResultCaps(releaseCaps)
		return nil
	}
}

// unread sends calls, as long as the host takes them, and reads no answers.
func (g *grip) unread(n int, c func(q uint32) call) {
	g.await()
	for q := range uint32(n) {
		g.call(c(q))
	}
	g.flush()
	select {}
}

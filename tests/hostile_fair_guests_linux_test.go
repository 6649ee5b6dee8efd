package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"capd/client"
	"capd/vfs"
)

func init() { others["fair-honest"] = fairHonest }

// opTimes describes an honest guest's operations of one kind in a phase.
type opTimes struct {
	Times  []time.Duration `json:"times"`
	Failed int             `json:"failed"`
	First  string          `json:"first"` // the error of the first that failed
	Again  int64           `json:"again"` // how often a guest in a crowd had to connect again
}

// phaseTimes describes all kinds.
type phaseTimes map[string]*opTimes

// opKinds are the kinds, in the table's order.
var opKinds = []string{"read", "put", "dial"}

// pauses are how long the honest guest waits between two operations.
var pauses = map[string]time.Duration{"read": time.Millisecond, "put": 3 * time.Millisecond, "dial": 5 * time.Millisecond}

// fairHonest works until its standard input ends. It reads 4 KiB of an open file,
// puts small files and dials, each in its own goroutine. It reads the names of
// phases, one a line, and answers each with the times of the phase before. Its
// arguments are a locator, where it works, and whether it dials in a crowd.
func fairHonest(args []string) {
	g := newTimedGuest(args[0], args[1], args[2] == "true")
	for what, op := range map[string]func(context.Context, int) error{"read": g.read, "put": g.put, "dial": g.dial} {
		go g.repeat(what, op)
	}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		out.Encode(g.enter())
	}
}

type timedGuest struct {
	loc, place string
	crowded    bool
	again      atomic.Int64 // how often it was sent away
	top        *client.Dir
	big        *client.File

	mu    sync.Mutex
	since time.Time            // when the phase began
	open  map[string]time.Time // start of operations that are under way
	now   phaseTimes
}

// newTimedGuest makes the files that the guest works on.
func newTimedGuest(loc, place string, crowded bool) *timedGuest {
	g := &timedGuest{loc: loc, place: place, crowded: crowded, open: map[string]time.Time{}}
	g.enter()
	ctx := context.Background()
	_, g.top = guestOf(loc)
	if _, err := g.top.CreateDir(ctx, place); err != nil && !errors.Is(err, vfs.Exists) {
		panic(err)
	}
	for name, n := range map[string]int{"big": honestBig, "small": honestSmall} {
		if _, err := g.top.Put(ctx, place+"/"+name, bytes.NewReader(pattern(0, n)), vfs.If{}); err != nil {
			panic(err)
		}
	}
	g.big = g.top.OpenFile(place + "/big")
	for i := range 3 { // so that the host has made what it makes only once
		for _, op := range []func(context.Context, int) error{g.read, g.put, g.dial} {
			if err := op(ctx, i); err != nil {
				panic(err)
			}
		}
	}
	return g
}

func (g *timedGuest) read(ctx context.Context, i int) error {
	b, off := make([]byte, 4<<10), i%(honestBig>>12)<<12
	if n, err := g.big.ReadAt(ctx, b, int64(off)); err != nil || n != len(b) {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	return same(b, pattern(off, len(b)))
}

func (g *timedGuest) put(ctx context.Context, i int) error {
	_, err := g.top.Put(ctx, fmt.Sprintf("%s/w%d", g.place, i%8), bytes.NewReader(pattern(i, 1<<10)), vfs.If{})
	return err
}

// dial comes again if it was sent away in a crowd, as a guest does that was not given a
// processor in time. All of that is one operation, which must not take too long.
func (g *timedGuest) dial(ctx context.Context, _ int) error {
	for {
		err := g.visit(ctx)
		if code := vfs.CodeOf(err); !g.crowded || code != vfs.Stale && code != vfs.Busy || ctx.Err() != nil {
			return err
		}
		g.again.Add(1)
		time.Sleep(pauses["dial"])
	}
}

func (g *timedGuest) visit(ctx context.Context) error {
	c, err := client.Dial(ctx, g.loc)
	if err != nil {
		return err
	}
	defer c.Close()
	info, err := c.Dir(ctx).WalkStat(ctx, g.place+"/small", true)
	if err == nil && info.Size != honestSmall {
		err = fmt.Errorf("a size of %d", info.Size)
	}
	return err
}

// repeat repeats one kind of operation for ever.
func (g *timedGuest) repeat(what string, op func(context.Context, int) error) {
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*mostWait)
		begun := time.Now()
		g.mu.Lock()
		g.open[what] = begun
		g.mu.Unlock()
		err := op(ctx, i)
		g.mu.Lock()
		g.note(what)
		delete(g.open, what)
		if o := g.now[what]; err != nil {
			if o.Failed++; o.First == "" {
				o.First = fmt.Sprintf("%s, after %v: %v", what, time.Since(begun).Round(time.Millisecond), err)
			}
		}
		g.mu.Unlock()
		cancel()
		time.Sleep(pauses[what])
	}
}

// note counts the operation that is under way, with the part of it that lies in this
// phase. g.mu is held.
func (g *timedGuest) note(what string) {
	begun := g.open[what]
	if begun.Before(g.since) {
		begun = g.since
	}
	g.now[what].Times = append(g.now[what].Times, time.Since(begun))
}

// enter begins a phase, and returns the times of the last one. An operation that
// spans both counts in both.
func (g *timedGuest) enter() phaseTimes {
	g.mu.Lock()
	defer g.mu.Unlock()
	for what := range g.open {
		g.note(what)
	}
	last := g.now
	if o := last["dial"]; o != nil {
		o.Again = g.again.Swap(0)
	}
	g.since, g.now = time.Now(), phaseTimes{}
	for _, what := range opKinds {
		g.now[what] = &opTimes{}
	}
	return last
}

// rival is a guest in a process of its own. The test sends it commands, a line each,
// and it answers each.
type rival struct {
	tr  *trial
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	end sync.Once
}

func startRival(tr *trial, name string, args ...string) *rival {
	r := &rival{tr: tr, cmd: program(name, args...)}
	if name == "fair-attack" {
		r.cmd = behind(r.cmd)
	}
	var err error
	r.in, err = r.cmd.StdinPipe()
	ok(tr, err)
	out, err := r.cmd.StdoutPipe()
	ok(tr, err)
	r.out = bufio.NewReader(out)
	ok(tr, r.cmd.Start())
	tr.Cleanup(r.kill)
	return r
}

// behind makes a program run only when the host and the honest guest need no
// processor. So the test measures how the host shares, and not how the system shares
// processors among guests.
func behind(cmd *exec.Cmd) *exec.Cmd {
	nice := exec.Command("nice", append([]string{"-n", "10", cmd.Path}, cmd.Args[1:]...)...)
	nice.Env, nice.Stderr = cmd.Env, cmd.Stderr
	return nice
}

// ready waits for an attacker to hold what it needs.
func (r *rival) ready() { r.line() }

// answer is the report of a rival.
type answer struct {
	r    *rival
	text string
}

func (r *rival) tell(what string) answer {
	fmt.Fprintln(r.in, what)
	return r.line()
}

func (r *rival) line() answer {
	text, err := r.out.ReadString('\n')
	if err != nil {
		r.tr.breaks("%s says nothing: %v", strings.Fields(r.cmd.Env[len(r.cmd.Env)-1])[0], err)
	}
	return answer{r, text}
}

func (a answer) into(v any) {
	if err := json.Unmarshal([]byte(a.text), v); err != nil && a.text != "" {
		a.r.tr.breaks("a guest says %q: %v", a.text, err)
	}
}

// kill ends the process at once.
func (r *rival) kill() {
	r.end.Do(func() {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	})
}

// statusOf returns a number from a process's status in /proc, or 0 when the process
// has ended.
func statusOf(pid, key string) int {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(b), "\n"+key+":")
	if !found {
		return 0 // as for a zombie
	}
	n, _ := strconv.Atoi(strings.Fields(rest)[0])
	return n
}

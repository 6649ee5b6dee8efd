package tests

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/client"
	"capd/vfs"
)

func init() { others["honest"] = honestForever }

// The files of the honest guest, below project/honest.
const (
	honestBig   = 1 << 20
	honestSmall = 4 << 10
	honestFiles = 20
)

// pattern returns content that can be checked at any offset.
func pattern(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		at := off + i
		b[i] = byte(at*7 + at>>8*13 + at>>16)
	}
	return b
}

// layHonest makes the files of the honest guest.
func (p *place) layHonest() {
	p.Helper()
	dir := filepath.Join(p.served, "honest")
	ok(p, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	ok(p, os.WriteFile(filepath.Join(dir, "big"), pattern(0, honestBig), 0o644))
	ok(p, os.WriteFile(filepath.Join(dir, "small"), pattern(0, honestSmall), 0o644))
	for i := range honestFiles {
		ok(p, os.WriteFile(filepath.Join(dir, "d", fmt.Sprintf("f%02d", i)), pattern(i, i), 0o644))
	}
}

// The phases of an honest guest's times.
const (
	resting  = "resting"  // nothing is done
	idle     = "idle"     // nothing is measured
	attacked = "attacked" // beside an attack
	shared   = "shared"   // beside a harmless guest that keeps the host as busy
)

// span is the result of one guest in one phase.
type span struct {
	Ops    int             `json:"ops"`
	Times  []time.Duration `json:"times"`
	Failed string          `json:"failed"`
	Total  int             `json:"total"` // operations since it began
}

// honestForever works until its standard input ends, and checks every answer. It
// reads the names of phases, one a line, and answers each with the span of the
// phase before.
func honestForever(args []string) {
	g := &honestGuest{phase: idle}
	g.awake.L = &g.mu
	c, d := guestOf(args[0])
	defer c.Close()
	go g.work(d)
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		out.Encode(g.enter(in.Text()))
	}
}

type honestGuest struct {
	mu    sync.Mutex
	phase string
	since time.Time // when it began
	open  time.Time // when the operation under way began; zero for none
	now   span
	total int
	fail  string
	awake sync.Cond // signalled when a phase begins
}

// enter begins a phase and returns the span of the last one. An operation that
// spans both counts in both, each with its part.
func (g *honestGuest) enter(phase string) span {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open.IsZero() {
		g.note()
	}
	s := g.now
	s.Total, s.Failed = g.total, g.fail
	g.now, g.phase, g.since = span{}, phase, time.Now()
	g.awake.Broadcast()
	return s
}

// note counts the operation under way in the phase. g.mu is held.
func (g *honestGuest) note() {
	begun := g.open
	if begun.Before(g.since) {
		begun = g.since
	}
	if g.phase != idle && g.phase != resting {
		g.now.Times = append(g.now.Times, time.Since(begun))
	}
}

// do times one operation, and notes its error.
func (g *honestGuest) do(what string, op func(context.Context) error) {
	g.mu.Lock()
	for g.phase == resting {
		g.awake.Wait()
	}
	begun := time.Now()
	g.open = begun
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := op(ctx)
	took := time.Since(begun)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note()
	g.open = time.Time{}
	g.total++
	g.now.Ops++
	if err != nil && g.fail == "" {
		g.fail = fmt.Sprintf("%s, after %v: %v", what, took, err)
	}
}

func (g *honestGuest) work(d *client.Dir) {
	for i := 0; ; i++ {
		off, n := rand.IntN(honestBig-8192), 1+rand.IntN(8192)
		g.do("read", func(ctx context.Context) error {
			f := d.OpenFile("project/honest/big")
			defer f.Close()
			b := make([]byte, n)
			if got, err := f.ReadAt(ctx, b, int64(off)); err != nil || got != n {
				return fmt.Errorf("%d of %d bytes: %w", got, n, err)
			}
			return same(b, pattern(off, n))
		})
		g.do("stat", func(ctx context.Context) error {
			f := d.OpenFile("project/honest/small")
			defer f.Close()
			info, err := f.Stat(ctx)
			if err == nil && info.Size != honestSmall {
				err = fmt.Errorf("a size of %d", info.Size)
			}
			return err
		})
		g.do("readBytes", func(ctx context.Context) error {
			f := d.OpenFile("project/honest/small")
			defer f.Close()
			b, v, err := f.ReadBytes(ctx)
			if err != nil {
				return err
			}
			if v != vfs.Version(sha256.Sum256(b)) {
				return fmt.Errorf("the version is another content's")
			}
			return same(b, pattern(0, honestSmall))
		})
		g.do("list", func(ctx context.Context) error {
			sub := d.SubDir("project/honest/d")
			defer sub.Close()
			var names []string
			for e, err := range sub.List(ctx) {
				if err != nil {
					return err
				}
				names = append(names, e.Name)
			}
			if len(names) != honestFiles || !slices.IsSorted(names) {
				return fmt.Errorf("names %q", names)
			}
			return nil
		})
		for _, where := range []string{"project/honest/w", "tmp/w"} {
			g.do("write "+where, func(ctx context.Context) error {
				_, err := d.Put(ctx, where, bytes.NewReader(pattern(i, n)), vfs.If{})
				return err
			})
			g.do("read back "+where, func(ctx context.Context) error {
				f := d.OpenFile(where)
				defer f.Close()
				b, _, err := f.ReadBytes(ctx)
				if err != nil {
					return err
				}
				return same(b, pattern(i, n))
			})
		}
		time.Sleep(time.Millisecond)
	}
}

func same(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes that differ from the %d that are there", len(got), len(want))
	}
	return nil
}

// honest is the honest guest's process, as the test uses it.
type honest struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder

	phase string
	total int
	spent map[string][]time.Duration // by phase
}

func startHonest(t testing.TB, loc string) *honest {
	t.Helper()
	h := &honest{cmd: program("honest", loc), phase: idle, spent: map[string][]time.Duration{}}
	var err error
	h.in, err = h.cmd.StdinPipe()
	ok(t, err)
	out, err := h.cmd.StdoutPipe()
	ok(t, err)
	h.out = json.NewDecoder(out)
	ok(t, h.cmd.Start())
	t.Cleanup(func() { h.in.Close(); h.cmd.Wait() })
	return h
}

// enter begins a phase. It fails if the guest has failed, or has done nothing in
// the phase that ends.
func (h *honest) enter(t testing.TB, phase string) span {
	t.Helper()
	_, err := fmt.Fprintln(h.in, phase)
	ok(t, err)
	var s span
	if err := h.out.Decode(&s); err != nil {
		t.Fatalf("the honest guest says nothing: %v", err)
	}
	if s.Failed != "" {
		t.Errorf("the honest guest failed: %s", s.Failed)
	}
	if h.phase != idle && h.phase != resting {
		h.spent[h.phase] = append(h.spent[h.phase], s.Times...)
		if s.Ops == 0 && len(s.Times) > 0 && slices.Max(s.Times) > prompt {
			t.Errorf("the honest guest came to nothing in %v", slices.Max(s.Times))
		}
	}
	h.phase, h.total = phase, s.Total
	return s
}

// quantile returns the time that perMille in a thousand of times do not exceed.
func quantile(times []time.Duration, perMille int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)*perMille/1000, len(sorted)-1)]
}

// busy is a harmless guest on a few connections. It makes as many calls a second as its
// caller wants, for as long as its caller wants.
type busy struct {
	host  *hostProcess
	conns []*client.Conn
	dirs  []*client.Dir
}

func startBusy(h *hostProcess, loc string) *busy {
	b := &busy{host: h}
	for range 4 {
		c, err := client.Dial(context.Background(), loc)
		ok(h, err)
		h.Cleanup(func() { c.Close() })
		b.conns = append(b.conns, c)
		b.dirs = append(b.dirs, c.Dir(context.Background()))
	}
	return b
}

// keep works for as long as took, and makes the host use about cpu of processor
// time. It returns what the host used.
func (b *busy) keep(took, cpu time.Duration) time.Duration {
	begun, before := time.Now(), cpuOf(b.host)
	var ahead, over atomic.Bool
	var wg sync.WaitGroup
	for _, d := range b.dirs {
		for range 4 {
			wg.Go(func() {
				buf := make([]byte, 16<<10)
				for i := 0; !over.Load(); i++ {
					if ahead.Load() {
						time.Sleep(200 * time.Microsecond)
						continue
					}
					f := d.OpenFile("project/honest/big")
					_, err := f.ReadAt(context.Background(), buf, int64(i%60)<<14)
					f.Close()
					if err != nil {
						b.host.Errorf("the harmless guest: %v", err)
						return
					}
				}
			})
		}
	}
	for time.Since(begun) < took {
		due := time.Duration(float64(cpu) * float64(time.Since(begun)) / float64(took))
		ahead.Store(cpuOf(b.host)-before > due)
		time.Sleep(200 * time.Microsecond)
	}
	over.Store(true)
	wg.Wait()
	return cpuOf(b.host) - before
}

// cpuOf returns the processor time that the host has used.
func cpuOf(h *hostProcess) time.Duration {
	const sched = 2 // CPUCLOCK_SCHED: clock_getcpuclockid(3), without the C library
	var ts unix.Timespec
	if unix.ClockGettime(int32(^h.cmd.Process.Pid<<3|sched), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

package tests

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
	"capd/client"
	"capd/meter"
	"capd/vfs"
)

func init() { others["hoarder"] = hoarder }

// hoards take as much as they can and release nothing.
func hoards() []hostileRow {
	return []hostileRow{
		{name: "2,000 reads of 1 MiB whose replies are never read", must: "nothing: the host stops reading", room: 48, once: true, do: func(a *assault) {
			a.neverRead(1, 2000, false)
		}},
		{name: "the same, on 32 connections", must: "nothing: a few MiB each", room: 32 * 12, once: true, do: func(a *assault) {
			a.neverRead(32, 200, false)
		}},
		{name: "2,000 reads of 1 MiB whose results are to be kept", must: "abort: limit", room: 128, once: true, do: func(a *assault) {
			a.neverRead(1, 2000, true)
		}},
		{name: "100,000 small calls whose replies are never read", must: "the host stops reading", room: 48, once: true, do: func(a *assault) {
			p, _, top := a.guest()
			for q := uint32(0); q < 100_000; q++ {
				p.call(statDir(q, export(top)))
				if q%1000 == 0 && !p.flush() {
					return
				}
			}
		}},
		{name: "100,000 capabilities, leaked", must: "limit beyond 32,768; everything else goes on", room: 240, once: true, do: leakCaps},
		{name: "30,000 files with long paths", must: "limit: they count for more", room: 200, once: true, do: func(a *assault) {
			dir, file, remove := a.deep()
			defer remove()
			p, _, top := a.guest()
			p.call(openDir(askedFile, export(top), dir))
			caps, _ := p.works(askedFile)
			if limits := p.hold(30_000, func(q uint32) call { return openFile(q, export(caps[0]), file) }); limits < 30_000-32_768/14 {
				a.Errorf("only %d met the limit", limits)
			}
			a.look()
			p.alive(top)
		}},
		{name: "revocables to the limit, on four connections", must: "limit", room: 300, once: true, do: func(a *assault) {
			var limits atomic.Int64
			each(4, func(int) {
				p, _, top := a.guest()
				limits.Add(int64(p.hold(9000, func(q uint32) call { return of(q, export(top), schema.Dir_revocable, nil) })))
			})
			a.look()
			if limits.Load() == 0 {
				a.Errorf("there is no limit")
			}
		}},
		{name: "shares to the limit", must: "limit beyond 1,024", once: true, do: func(a *assault) {
			p, session, top := a.guest()
			for q := range uint32(1100) {
				p.call(shareDir(q, session, theirs(top)))
			}
			limits := 0
			for range 1100 {
				r, err := p.next(rpc.Message_Which_return).Return()
				ok(a.TB, err)
				if isLimit(r) {
					limits++
				}
			}
			if limits != 1100-1024 {
				a.Errorf("%d shares met the limit", limits)
			}
			p.alive(top)
		}},
		{name: "300 staged writers, dropped", must: "limit beyond 256; nothing is left", do: func(a *assault) {
			p, _, top := a.guest()
			limits := p.stageMany(top, 300)
			if limits < 300-256 {
				a.Errorf("%d writers met the limit", limits)
			}
			for q := range uint32(300) {
				p.finish(q, true)
			}
			p.alive(top)
		}},
		{name: "300 staged writers, left at death", must: "nothing is left", do: func(a *assault) {
			p, _, top := a.guest()
			p.stageMany(top, 300)
		}},
		{name: "staged writers with a write that waits, on 16 connections", must: "nothing is left", room: 300, do: func(a *assault) {
			each(16, func(int) {
				p, _, top := a.guest()
				p.swallow()
				for q := uint32(0); q < 60; q += 3 {
					p.call(of(q, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error { return s.SetPath("tmp/staged") }))
					p.call(of(q+1, result(q, 0), schema.Writer_write, func(s schema.Writer_write_Params) error { return s.SetData(make([]byte, 200<<10)) }))
					p.call(of(q+2, result(q, 0), schema.Writer_commit, nil))
				}
				p.flush()
			})
		}},
		{name: "5,000 calls that wait", must: "limit beyond 4,096", once: true, do: func(a *assault) {
			p, _, top := a.guest()
			for q := range uint32(5000) {
				p.call(moveTo(q, export(top), promise(q)))
			}
			if limits := p.countLimits(5000 - 4096); limits < 5000-4096 {
				a.Errorf("%d calls met the limit", limits)
			}
		}},
		{name: "64 MiB in calls that wait", must: "limit beyond 32 MiB", room: 160, once: true, do: func(a *assault) {
			p, _, top := a.guest()
			for q := range uint32(16) {
				p.call(longMove(q, top, 4<<20))
			}
			if limits := p.countLimits(8); limits < 8 {
				a.Errorf("%d calls met the limit", limits)
			}
		}},
		{name: "heavy patterns on 32 connections", must: "answers, in turn", once: true, do: func(a *assault) {
			a.heavy(32, func(p *peer, q, top uint32) { p.call(globFor(q, export(top), "project/hostile/**/*[a-f]*{0,1,2,3}*")) })
		}},
		{name: "patterns that are dear to compile, on 8 connections", must: "invalid or an answer, in turn", once: true, do: func(a *assault) {
			dear := []string{
				strings.Repeat("[", 4060) + strings.Repeat("{a,b}", 6),
				strings.Repeat("{a,b}", 6) + strings.Repeat("{x", 1300) + strings.Repeat("}", 1300),
			}
			a.heavy(8, func(p *peer, q, top uint32) {
				for i := range uint32(20) {
					p.call(globFor(q*20+i, export(top), dear[i%2]))
				}
			})
		}},
		{name: "versions of 32 GiB, on 32 connections", must: "nothing: they end with the connections", once: true, do: func(a *assault) {
			a.sparse()
			a.heavy(32, func(p *peer, q, top uint32) {
				p.call(openFile(q+1000, export(top), "project/hostile/sparse"))
				p.call(of(q, result(q+1000, 0), schema.File_stat, func(s schema.File_stat_Params) error { s.SetWithVersion(true); return nil }))
			})
		}},
		{name: "changes on a condition, of 32 GiB, on 32 connections", must: "nothing: they end with the connections", once: true, do: func(a *assault) {
			a.sparse()
			a.heavy(32, func(p *peer, q, top uint32) {
				p.call(removeIf(q, top, "project/hostile/sparse"))
			})
		}},
		{name: "large pages on 32 connections", must: "answers, in turn", once: true, do: func(a *assault) {
			a.heavy(32, func(p *peer, q, top uint32) {
				p.call(openDir(q+1000, export(top), "project/hostile/many"))
				p.call(of(q, result(q+1000, 0), schema.Dir_list, func(s schema.Dir_list_Params) error { s.SetWithStat(true); return nil }))
			})
		}},
		{name: "whole files of 4 MiB, on 32 connections", must: "answers, as they are read", room: 32 * 16, once: true, do: func(a *assault) {
			a.heavy(32, func(p *peer, q, top uint32) {
				p.call(openFile(q+1000, export(top), "project/hostile/four"))
				p.call(of(q, result(q+1000, 0), schema.File_readBytes, nil))
			})
		}},
		{name: "listings begun by the hundred", must: "nothing: the oldest make room", do: func(a *assault) {
			p, _, top := a.guest()
			for q := uint32(0); q < 400; q += 2 {
				p.call(openDir(q, export(top), "project/hostile/many"))
				p.call(of(q+1, result(q, 0), schema.Dir_list, func(s schema.Dir_list_Params) error { s.SetLimit(1); return nil }))
			}
			for q := uint32(1); q < 400; q += 2 {
				p.works(q)
			}
			p.alive(top)
		}},
		{name: "listings of a large directory, kept on 32 connections", must: "nothing: the oldest of the grant make room", room: 160, once: true, do: func(a *assault) {
			defer a.wide(15_000)()
			each(32, func(int) {
				p, _, top := a.guest()
				for q := uint32(0); q < 8; q += 2 {
					p.call(openDir(q, export(top), "project/wide"))
					p.call(of(q+1, result(q, 0), schema.Dir_list, func(s schema.Dir_list_Params) error { s.SetLimit(1); return nil }))
				}
				for q := uint32(1); q < 8; q += 2 {
					p.works(q)
				}
			})
			a.look()
		}},
		{name: "connections by the thousand that restore nothing", must: "the oldest make room; a guest gets in", once: true, do: func(a *assault) {
			for range 2000 {
				if nc, err := net.Dial("unix", a.evil.Socket); err == nil {
					defer nc.Close()
				}
			}
			p, _, top := a.guest()
			p.alive(top)
		}},
		{name: "connections of one grant, beyond the limit", must: "limit beyond 256, and room again when one ends", once: true, do: func(a *assault) {
			first, _, top := a.guest()
			for range meter.GrantLimits()[meter.Connections] - 1 {
				a.guest()
			}
			p := a.stranger()
			p.bootstrap(askedBoot)
			p.call(restore(1, result(askedBoot), a.evil.Secret[:]))
			p.fails(1, "limit")
			first.alive(top)
			first.nc.Close()
			if !waitFor(patience, func() bool {
				p.call(restore(2, result(askedBoot), a.evil.Secret[:]))
				r := p.ret(2)
				p.finish(2, true)
				return r.Which() == rpc.Return_Which_results
			}) {
				a.Errorf("there is no room when one has ended")
			}
		}},
		{name: "8 grants with 256 connections each", must: "all are served: other grants have room of their own", room: 400, once: true, do: func(a *assault) {
			a.manyGrants(8)
		}},
		{name: "connections ended in the middle of large results", must: "nothing", do: func(a *assault) {
			each(8, func(int) {
				p, _, top := a.guest()
				p.call(openFile(1, export(top), "project/hostile/big"))
				for q := range uint32(20) {
					p.call(read(10+q, result(1, 0), 0, 1<<20))
				}
				p.flush()
				p.nc.SetReadDeadline(time.Now().Add(time.Second))
				p.nc.Read(make([]byte, 100_000))
				p.nc.Close()
			})
		}},
		{name: "a guest killed with everything open", must: "nothing is left", do: func(a *assault) {
			cmd := program("hoarder", a.evil.String())
			var out syncBuffer
			cmd.Stdout = &out
			ok(a.TB, cmd.Start())
			if !waitFor(patience, func() bool { return out.String() != "" }) {
				a.Errorf("the guest did not begin")
			}
			cmd.Process.Kill()
			cmd.Wait()
		}},
	}
}

func isLimit(r rpc.Return) bool {
	if r.Which() != rpc.Return_Which_exception {
		return false
	}
	e, err := r.Exception()
	if err != nil {
		return false
	}
	why, err := e.Reason()
	return err == nil && coded(why, "limit")
}

// countLimits reads n Returns and counts those that fail with limit.
func (p *peer) countLimits(n int) (limits int) {
	p.Helper()
	for range n {
		r, err := p.next(rpc.Message_Which_return).Return()
		ok(p, err)
		if isLimit(r) {
			limits++
		}
	}
	return limits
}

// neverRead asks for results of 1 MiB on some connections and reads none. If kept is set,
// it never finishes the calls, which must end the connection.
func (a *assault) neverRead(conns, calls int, kept bool) {
	each(conns, func(int) {
		p, _, top := a.guest()
		p.call(openFile(askedFile, export(top), "project/hostile/big"))
		caps, _ := p.works(askedFile)
		for q := range uint32(calls) {
			c := read(q, export(caps[0]), 0, 1<<20)
			if kept {
				c = c.yourself()
			}
			p.call(c)
		}
		p.flush()
		if kept {
			p.aborted("limit")
		}
	})
	for range 20 {
		a.look()
		time.Sleep(10 * time.Millisecond)
	}
}

// hold makes n calls, some at a time, and keeps their results. It returns how many were
// refused with limit.
func (p *peer) hold(n uint32, ask func(q uint32) call) (limits int) {
	p.Helper()
	const some = 1000
	for q := uint32(0); q < n; q += some {
		for i := range uint32(some) {
			p.call(ask(q + i))
		}
		limits += p.countLimits(some)
		for i := range uint32(some) {
			p.finish(q+i, false)
		}
	}
	return limits
}

func leakCaps(a *assault) {
	p, _, top := a.guest()
	n := uint32(100_000)
	if raceBuilt {
		n = 70_000
	}
	if limits := p.hold(n, func(q uint32) call { return of(q, export(top), schema.Dir_readOnly, nil) }); limits < int(n)-32_768 || limits > int(n)-30_000 {
		a.Errorf("%d of %d met the limit", limits, n)
	}
	a.look()
	p.call(of(askedLater, export(0), schema.Session_help, nil))
	p.works(askedLater)
}

// stageMany begins n writes and writes a little to each. It returns how many were refused
// with limit.
func (p *peer) stageMany(top uint32, n uint32) (limits int) {
	for q := range n {
		p.call(of(q, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error {
			return s.SetPath(fmt.Sprintf("project/hostile/staged%d", q))
		}))
	}
	return p.countLimits(int(n))
}

// heavy makes eight expensive calls on each connection, and lets them run for a while.
func (a *assault) heavy(conns int, do func(p *peer, q, top uint32)) {
	each(conns, func(int) {
		p, _, top := a.guest()
		p.swallow()
		for q := range uint32(8) {
			do(p, q, top)
		}
		p.flush()
	})
	for range times(4, 10) {
		a.look()
		time.Sleep(80 * time.Millisecond)
	}
}

// wide makes a directory of n files with long names.
func (a *assault) wide(n int) (remove func()) {
	dir := filepath.Join(a.served, "wide")
	ok(a.TB, os.Mkdir(dir, 0o755))
	for i := range n {
		ok(a.TB, os.Symlink(".", filepath.Join(dir, fmt.Sprintf("%06d%s", i, strings.Repeat("n", 244)))))
	}
	return func() { ok(a.TB, os.RemoveAll(dir)) }
}

// deep makes a file whose path has nearly the greatest length.
func (a *assault) deep() (dir, file string, remove func()) {
	names := slices.Repeat([]string{strings.Repeat("d", 250)}, 14)
	dir, file = filepath.Join(names...), strings.Repeat("f", 250)
	ok(a.TB, os.MkdirAll(filepath.Join(a.served, dir), 0o755))
	ok(a.TB, os.WriteFile(filepath.Join(a.served, dir, file), nil, 0o644))
	return "project/" + dir, file, func() { ok(a.TB, os.RemoveAll(filepath.Join(a.served, names[0]))) }
}

// sparse makes a file that takes almost no room but half a minute to read.
func (a *assault) sparse() {
	ok(a.TB, os.Truncate(a.served+"/hostile/sparse", 1<<35))
}

// manyGrants holds n grants, each over as many connections as are allowed.
func (a *assault) manyGrants(n int) {
	each(n, func(i int) {
		_, loc, ctl, err := a.console.Grant(context.Background(), fmt.Sprintf("evil%d", i), "", false)
		if err != nil {
			a.Errorf("grant: %v", err)
			return
		}
		defer ctl.Close()
		defer a.console.Revoke(context.Background(), fmt.Sprintf("evil%d", i))
		for range meter.GrantLimits()[meter.Connections] {
			c, err := client.Dial(context.Background(), loc)
			if err != nil {
				continue // the listener's queue is full
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := c.Node(ctx); err != nil {
				a.Errorf("a connection of grant %d: %v", i, err)
				return
			}
		}
		a.look()
	})
}

// hoarder opens one of everything many times, and reports that.
func hoarder(args []string) {
	ctx := context.Background()
	conn, top := guestOf(args[0])
	for i := range 20 {
		f := top.OpenFile("project/hostile/big")
		go f.Stream(ctx, slow{}, 0, 0)
		if _, err := vfs.Open(ctx, top.OpenFile("project/hostile/f")); err != nil {
			panic(err)
		}
		go top.Put(ctx, fmt.Sprintf("project/hostile/hoard%d", i), &drip{}, vfs.If{})
		d, _ := top.SubDir("project").Revocable()
		if _, err := d.Stat(ctx); err != nil {
			panic(err)
		}
		if i%5 == 0 {
			if _, _, err := conn.Share(ctx, top); err != nil {
				panic(err)
			}
		}
		go func() {
			for range top.SubDir("project/hostile/many").List(ctx) {
				time.Sleep(time.Second)
			}
		}()
	}
	time.Sleep(20 * time.Millisecond)
	os.Stdout.WriteString(".")
	select {}
}

// slow is a sink that takes its time. drip is a reader that gives a little at a time.
type (
	slow struct{}
	drip struct{ n int }
)

func (slow) Write(b []byte) (int, error) {
	time.Sleep(time.Second)
	return len(b), nil
}

func (d *drip) Read(b []byte) (int, error) {
	if d.n++; d.n > 6 { // more than one message carries
		time.Sleep(time.Second)
	}
	return min(len(b), 1<<20), nil
}

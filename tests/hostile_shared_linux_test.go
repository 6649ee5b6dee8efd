package tests

import (
	"strings"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
)

// sharedHoards take a little on each of many connections, or with each of many calls. The
// limit is that of the grant.
func sharedHoards() []hostileRow {
	return []hostileRow{
		{name: "paths that come and go, of 60 calls that wait", must: "nothing is left of them", room: 16, once: true, do: func(a *assault) {
			p, _, top := a.guest()
			for q := range uint32(60) {
				p.call(moveTo(q, export(top), promise(q)))
			}
			p.swallowing(top, func() {
				path := make([]uint16, 32)
				for q := range uint32(60) {
					for path[0] = range uint16(1000) {
						p.call(statDir(5000, result(q, path...)))
						p.finish(5000, true)
					}
				}
			})
		}},
		{name: "a million capabilities in each of 16 calls that wait", must: "abort: limit", room: 64, once: true, do: func(a *assault) {
			a.crowded(1<<20-100, 16).ended()
		}},
		{name: "60,000 capabilities in each of 20 calls that wait", must: "limit, when they and what they hold are 24 MiB", room: 128, once: true, do: func(a *assault) {
			const calls, refused = 20, 14
			p, limits, others := a.crowded(60_000, calls), 0, []string(nil)
			for n := 0; n < calls && limits < refused; n++ { // a call that waits may end meanwhile, on a slow machine
				r, err := p.next(rpc.Message_Which_return).Return()
				ok(p, err)
				if isLimit(r) {
					limits++
					continue
				}
				e, _ := r.Exception()
				why, _ := e.Reason()
				others = append(others, why)
			}
			if limits < refused {
				a.Errorf("they are counted as the bytes that they came in: %d were refused, and the others ended with %q", limits, others)
			}
		}},
		{name: "errors about paths of 7 MiB, never finished", must: "answers, as long as a path can be", room: 64, once: true, do: func(a *assault) {
			p, _, top := a.guest()
			p.swallowing(top, func() {
				for q := range uint32(20) {
					p.call(openDir(q, export(top), strings.Repeat("\x01", 7<<20)))
				}
			})
		}},
		{name: "errors about paths of 4,000 bytes, never finished", must: "abort: limit", room: 96, once: true, do: func(a *assault) {
			var refused refusals
			p, _, top := a.guest()
			refused.swallow(p)
			for q := range uint32(16_000) {
				p.call(openDir(q, export(top), strings.Repeat("\x01", 4000)))
			}
			p.flush()
			refused.come(a, 0, 1)
		}},
		{name: "31 results of 1 MiB kept on each of 32 connections", must: "limit, of half of them", room: 640, once: true, do: func(a *assault) {
			const conns, own = 32, 31
			refused := make([]refusals, conns)
			each(conns, func(i int) {
				p, _, top := a.guest()
				p.call(openFile(askedFile, export(top), "project/hostile/big"))
				caps, _ := p.works(askedFile)
				refused[i].swallow(p)
				for q := range uint32(own) {
					p.call(read(q, export(caps[0]), 0, 1<<20).yourself())
				}
				p.flush()
				a.look()
			})
			var results int64 // results that were not kept: all of a connection that ended
			if !waitFor(patience, func() bool {
				a.look()
				results = 0
				for i := range refused {
					if results += refused[i].calls.Load(); refused[i].conns.Load() > 0 {
						results += own - refused[i].calls.Load()
					}
				}
				return results >= conns*own/2
			}) {
				a.Errorf("%d of %d results were not kept", results, conns*own)
			}
		}},
		{name: "760 calls of 31 KiB that wait, on each of many connections", must: "limit, of what is beyond 96 MiB", room: 400, once: true, do: func(a *assault) {
			var refused refusals
			each(many(), func(int) {
				p, _, top := a.guest()
				refused.swallow(p)
				for q := range uint32(760) {
					p.call(longMove(q, top, 31<<10))
				}
				p.flush()
				a.look()
			})
			refused.come(a, 1000, 0)
		}},
		{name: "streams to what a call of the guest's own answers, which waits", must: "a chunk of each waits", room: 256, once: true, do: func(a *assault) {
			each(4, func(int) {
				p, _, top := a.guest()
				p.call(openFile(askedFile, export(top), "project/hostile/four"))
				caps, _ := p.works(askedFile)
				p.swallow()
				p.call(moveTo(5000, export(top), promise(1)))
				for q := range uint32(64) {
					p.call(stream(q, export(caps[0]), theirAnswer(5000, 0)))
				}
				p.flush()
			})
			a.watch(time.Second)
		}},
		{name: "16,000 calls never finished on each of many connections", must: "limit, of what is beyond 96 MiB", room: 240, once: true, do: func(a *assault) {
			a.unfinished(many(), 1000, 0, func(p *peer, q, top uint32) { p.call(statDir(q, export(top))) })
		}},
		{name: "16,000 Bootstraps never finished on each of many connections", must: "abort: limit", room: 440, once: true, do: func(a *assault) {
			a.unfinished(max(12, many()), 0, 1, func(p *peer, q, _ uint32) { p.bootstrap(q) })
		}},
	}
}

// crowded makes calls that wait, each with n times the same capability of the host.
func (a *assault) crowded(n int32, calls uint32) *peer {
	p, _, top := a.guest()
	for q := range calls {
		c := moveTo(q, export(top), promise(q))
		fill := c.params
		c.params = func(w rpc.Payload) error {
			if err := fill(w); err != nil {
				return err
			}
			l, err := capnp.NewCompositeList(w.Segment(), capnp.ObjectSize{DataSize: 8}, n)
			if err != nil {
				return err
			}
			for i := range int(n) {
				l.Struct(i).SetUint16(0, uint16(rpc.CapDescriptor_Which_receiverHosted))
				l.Struct(i).SetUint32(4, top)
			}
			l.Struct(0).SetUint16(0, uint16(rpc.CapDescriptor_Which_senderPromise)) // the call waits for this
			l.Struct(0).SetUint32(4, q)
			return capnp.Struct(w).SetPtr(1, l.ToPtr())
		}
		p.call(c)
	}
	p.flush()
	a.look()
	return p
}

// longMove returns a call that waits, and that is this many bytes long.
func longMove(q, top uint32, bytes int) call {
	c := moveTo(q, export(top), promise(q))
	fill := c.params
	c.params = func(w rpc.Payload) error {
		if err := fill(w); err != nil {
			return err
		}
		content, err := w.Content()
		if err != nil {
			return err
		}
		return schema.Dir_move_Params(content.Struct()).SetNewPath(strings.Repeat("x", bytes))
	}
	return c
}

// many returns the number of connections to use at once.
func many() int {
	if raceBuilt {
		return 8
	}
	return times(8, 32)
}

// unfinished makes calls on n connections and finishes none, until this many calls or
// connections were refused with a limit.
func (a *assault) unfinished(n int, calls, conns int64, do func(p *peer, q, top uint32)) {
	var refused refusals
	each(n, func(int) {
		p, _, top := a.guest()
		refused.swallow(p)
		for q := range uint32(16_000) {
			do(p, q, top)
		}
		p.flush()
		a.look()
	})
	refused.come(a, calls, conns)
}

// watch records for a while how much memory the host uses.
func (a *assault) watch(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		a.look()
	}
}

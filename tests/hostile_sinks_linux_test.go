package tests

import (
	"strings"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
)

// sinkAttacks make the host call them.
func sinkAttacks() []hostileRow {
	return []hostileRow{
		{name: "a sink that never answers, and whose client then dies", must: "nothing: the stream ends with the connection", do: func(a *assault) {
			p, _, file := a.holding()
			p.call(stream(1, export(file), hosted(5)))
			p.next(rpc.Message_Which_call)
		}},
		{name: "300 streams to sinks that never answer", must: "limit beyond 256, and the rest end with the connection", room: 160, do: func(a *assault) {
			p, _, top := a.guest()
			p.call(openFile(askedFile, export(top), "project/hostile/big"))
			caps, _ := p.works(askedFile)
			for q := range uint32(300) {
				p.call(stream(q, export(caps[0]), hosted(q)))
			}
			for range 20 {
				p.next(rpc.Message_Which_call)
			}
		}},
		sinkThat("fails", "invalid", func(r rpc.Return, _ uint32) error {
			e, err := r.NewException()
			if err != nil {
				return err
			}
			return e.SetReason("no")
		}),
		sinkThat("says revoked, denied and internal in a megabyte", "invalid", func(r rpc.Return, q uint32) error {
			e, err := r.NewException()
			if err != nil {
				return err
			}
			words := []string{"capd: revoked: ", "capd: denied: ", "capd: internal: ", "\x1b[2J"}
			return e.SetReason(strings.Repeat(words[q%4], 100_000))
		}),
		sinkThat("cancels", "invalid", func(r rpc.Return, _ uint32) error { r.SetCanceled(); return nil }),
		sinkThat("waits for a third party", "invalid", func(r rpc.Return, _ uint32) error { return r.SetAwaitFromThirdParty(capnp.Ptr{}) }),
		sinkThat("answers a table of capabilities", "", func(r rpc.Return, q uint32) error {
			payload, err := r.NewResults()
			if err != nil {
				return err
			}
			table, err := payload.NewCapTable(1000)
			for i := range 1000 {
				switch i % 4 {
				case 0:
					table.At(i).SetSenderHosted(q*1000 + uint32(i))
				case 1:
					table.At(i).SetSenderPromise(q*1000 + uint32(i))
				case 2:
					table.At(i).SetReceiverHosted(never)
				}
			}
			return err
		}),
		sinkThat("answers what is not a struct", "", func(r rpc.Return, _ uint32) error {
			payload, err := r.NewResults()
			if err != nil {
				return err
			}
			l, err := capnp.NewUInt64List(payload.Segment(), 1000)
			return firstOf(err, payload.SetContent(l.ToPtr()))
		}),
		breach("a sink that answers twice", "not asked", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), hosted(5)))
			c, err := p.next(rpc.Message_Which_call).Call()
			ok(p, err)
			p.answer(c.QuestionId(), func(r rpc.Return) error { r.SetCanceled(); return nil })
			p.answer(c.QuestionId(), func(r rpc.Return) error { r.SetCanceled(); return nil })
		}),
		refused("a sink that takes its parameters' capabilities back, over and over", "nothing", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), hosted(5)))
			p.serveSink(2, func(q uint32) {
				p.answer(q, func(r rpc.Return) error { r.SetReleaseParamCaps(true); return empty(r) })
			})
		}),
		refused("a sink that calls back in", "the stream, and what it calls", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/big"))
			caps, _ := p.works(1)
			p.call(stream(2, export(caps[0]), hosted(5)))
			calls := uint32(100)
			p.serveSink(2, func(q uint32) {
				for range 5 {
					p.call(read(calls, export(caps[0]), 0, 4096))
					p.finish(calls, true)
					p.call(of(calls+1, export(caps[0]), schema.File_stat, nil))
					p.finish(calls+1, true)
					calls += 2
				}
				p.answer(q, empty)
			})
		}),
		refused("a sink that streams into itself", "both streams, or a typed error", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			caps, _ := p.works(1)
			p.call(stream(2, export(caps[0]), hosted(5)))
			deep := uint32(10)
			p.serveSink(2, func(q uint32) {
				if deep < 40 {
					p.call(stream(deep, export(caps[0]), hosted(5)))
					deep++
				}
				p.answer(q, empty)
			})
		}),
		{name: "a stream called off, 500 times", must: "nothing: each sink is called off too", do: func(a *assault) {
			p, _, file := a.holding()
			p.swallow()
			for q := range uint32(500) {
				p.call(stream(q, export(file), hosted(q)))
				p.finish(q, true)
			}
			p.flush()
			time.Sleep(5 * time.Millisecond)
		}},
		{name: "a sink on a promise that is never kept", must: "nothing: it ends with the connection", do: func(a *assault) {
			p, _, file := a.holding()
			for q := range uint32(50) {
				p.call(stream(q, export(file), promise(q)))
			}
			for range 50 {
				p.next(rpc.Message_Which_call)
			}
			for q := range uint32(50) {
				p.resolve(q, theirs(file))
			}
			p.flush()
		}},
	}
}

// sinkThat returns a row of a sink whose answers are made by answer. The stream must fail
// with want, or may do anything if want is "".
func sinkThat(does, want string, answer func(r rpc.Return, q uint32) error) hostileRow {
	must := "the stream is " + want + ", in our words"
	if want == "" {
		must = "the stream goes on; nothing is kept"
	}
	return refused("a sink that "+does, must, func(p *peer, _, top uint32) {
		p.call(openFile(1, export(top), "project/hostile/f"))
		p.call(stream(2, result(1, 0), hosted(5)))
		r := p.serveSink(2, func(q uint32) { p.answer(q, func(r rpc.Return) error { return answer(r, q) }) })
		if want == "" {
			return
		}
		e, err := r.Exception()
		ok(p, err)
		if why, _ := e.Reason(); !coded(why, want) || strings.ContainsAny(why, "\x1b") || len(why) > 1000 {
			p.Errorf("the stream fails with %.100q, want %s", why, want)
		}
	})
}

// serveSink answers the host's calls with f until the call q has returned.
func (p *peer) serveSink(q uint32, f func(question uint32)) rpc.Return {
	p.Helper()
	for begun := time.Now(); time.Since(begun) < patience; {
		m, there := p.recv()
		if !there {
			p.Fatalf("the connection has ended")
		}
		switch m.Which() {
		case rpc.Message_Which_abort:
			e, _ := m.Abort()
			why, _ := e.Reason()
			p.Fatalf("the host aborted: %s", why)
		case rpc.Message_Which_call:
			c, err := m.Call()
			ok(p, err)
			f(c.QuestionId())
		case rpc.Message_Which_return:
			if r, err := m.Return(); err == nil && r.AnswerId() == q {
				return r
			}
		}
	}
	p.Fatalf("the host goes on and on")
	return rpc.Return{}
}

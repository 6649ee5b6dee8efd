package tests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
)

// protocolAttacks break the rules of rpc.capnp.
func protocolAttacks() []hostileRow {
	return slices.Concat(tableAttacks(), promiseAttacks(), questionAttacks())
}

// never is an id that nothing has.
const never = 123_456

// tableAttacks lie about the four tables.
func tableAttacks() []hostileRow {
	return []hostileRow{
		breach("call on its own question", "not open", func(p *peer, _, _ uint32) { p.call(statDir(7, result(7))) }),
		breach("call on a question never asked", "not open", func(p *peer, _, _ uint32) { p.call(statDir(7, result(never, 0))) }),
		breach("call on a question that was finished", "not open", func(p *peer, _, _ uint32) {
			p.finish(askedTop, false)
			p.call(statDir(7, result(askedTop, 0, 0)))
		}),
		breach("call on what was never exported", "not exported", func(p *peer, _, _ uint32) { p.call(statDir(7, export(never))) }),
		breach("call on what was released", "not exported", func(p *peer, _, top uint32) {
			p.release(top, 1)
			p.call(statDir(7, export(top)))
		}),
		breach("call without a target", "not exported", func(p *peer, session, top uint32) {
			p.finish(askedTop, false)
			p.finish(askedBoot, false)
			p.release(session, 1)
			p.release(top, 1)
			p.call(call{q: 7}) // it reads as the export 0
		}),
		breach("question reused while open", "open already", func(p *peer, _, top uint32) {
			p.call(openDir(7, export(top), "tmp"))
			p.call(openDir(7, export(top), "tmp"))
		}),
		breach("bootstrap reused while open", "open already", func(p *peer, _, _ uint32) { p.bootstrap(askedBoot) }),
		breach("finish of what was not asked", "not open", func(p *peer, _, _ uint32) { p.finish(never, true) }),
		breach("finished twice", "not open", func(p *peer, _, _ uint32) {
			p.finish(askedTop, false)
			p.finish(askedTop, false)
		}),
		breach("release of what was never exported", "never exported", func(p *peer, _, _ uint32) { p.release(never, 1) }),
		breach("release of more than was given", "more references", func(p *peer, _, top uint32) { p.release(top, 4_000_000_000) }),
		breach("return of what was not asked", "not asked", func(p *peer, _, _ uint32) { p.answer(never, empty) }),
		breach("unimplemented call that was not made", "not asked", func(p *peer, _, _ uint32) {
			p.send(func(m rpc.Message) error {
				u, err := m.NewUnimplemented()
				if err != nil {
					return err
				}
				return statDir(never, export(0)).fill(u)
			})
		}),
		{name: "unimplemented of everything", must: "the connection ends, and no other", do: unimplementedOfAll},
		breach("disembargo of what lives here", "does not lead back", func(p *peer, _, top uint32) {
			p.disembargo(export(top), func(c rpc.Disembargo_context) { c.SetSenderLoopback(3) })
		}),
		breach("disembargo of a call without results", "does not lead back", func(p *peer, _, top uint32) {
			p.call(openDir(7, export(top), "none"))
			p.fails(7, "notFound")
			p.disembargo(result(7, 0), func(c rpc.Disembargo_context) { c.SetSenderLoopback(3) })
		}),
		breach("disembargo that nobody waits for", "not asked for", func(p *peer, _, top uint32) {
			p.disembargo(export(top), func(c rpc.Disembargo_context) { c.SetReceiverLoopback(3) })
		}),
		{name: "disembargo of everything", must: "abort, of that connection alone", do: disembargoOfAll},
		{name: "more capabilities than anybody holds", must: "the connection ends", do: func(a *assault) {
			p, _, top := a.guest()
			held := make([]descriptor, 70_000)
			for i := range held {
				held[i] = promise(uint32(i))
			}
			c := moveTo(1, export(top), held[0])
			fill := c.params
			c.params = func(w rpc.Payload) error {
				if err := fill(w); err != nil {
					return err
				}
				table, err := w.NewCapTable(int32(len(held)))
				for i, d := range held {
					err = errors.Join(err, d(table.At(i)))
				}
				return err
			}
			p.call(c)
			p.ended()
		}},
		refused("capability table shorter than it is used", "invalid", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(of(2, result(1, 0), schema.File_stream, func(s schema.File_stream_Params) error { return s.SetSink(pointer(s, 4_000_000_000)) }))
			p.fails(2, "invalid")
		}),
		refused("receiverHosted of what does not exist", "unsupported or invalid", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), theirs(never)))
			p.fails(1, "unsupported")
			p.call(openFile(2, export(top), "project/hostile/f"))
			p.call(stream(3, result(2, 0), theirs(never)))
			p.fails(3, "invalid")
		}),
		breach("receiverAnswer of nothing", "not open", func(p *peer, _, top uint32) { p.call(moveTo(1, export(top), theirAnswer(never, 0))) }),
		breach("receiverAnswer of the call itself", "not open", func(p *peer, _, top uint32) { p.call(moveTo(1, export(top), theirAnswer(1, 0))) }),
		refused("third party's capability", "its vine is called", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), func(d rpc.CapDescriptor) error {
				third, err := d.NewThirdPartyHosted()
				third.SetVineId(9)
				return err
			}))
			c, err := p.next(rpc.Message_Which_call).Call()
			ok(p, err)
			to, err := c.Target()
			ok(p, err)
			if to.ImportedCap() != 9 {
				p.Errorf("the host calls %d", to.ImportedCap())
			}
			p.answer(c.QuestionId(), func(r rpc.Return) error { r.SetCanceled(); return nil })
			p.fails(2, "invalid")
		}),
		refused("capability of an unknown kind", "invalid", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), func(d rpc.CapDescriptor) error { capnp.Struct(d).SetUint16(0, 77); return nil }))
			p.fails(2, "invalid")
		}),
	}
}

func unimplementedOfAll(a *assault) {
	p, _, top := a.guest()
	switch a.round % 6 {
	case 0: // a message that was never sent
		p.send(func(m rpc.Message) error {
			u, err := m.NewUnimplemented()
			if err == nil {
				_, err = u.NewFinish()
			}
			return err
		})
		p.aborted("must")
	case 1: // its own echo, echoed a hundred times
		p.send(func(m rpc.Message) error {
			var err error
			for range 50 {
				if m, err = m.NewUnimplemented(); err != nil {
					return err
				}
			}
			return nil
		})
		p.aborted("")
	case 2: // a resolution of what the host never promised
		p.send(func(m rpc.Message) error {
			u, err := m.NewUnimplemented()
			if err != nil {
				return err
			}
			r, err := u.NewResolve()
			if err != nil {
				return err
			}
			d, err := r.NewCap()
			d.SetSenderHosted(never)
			return err
		})
		p.aborted("never exported")
	case 3: // a resolution to what the host does export: a release by another name
		p.send(func(m rpc.Message) error {
			u, err := m.NewUnimplemented()
			if err != nil {
				return err
			}
			r, err := u.NewResolve()
			if err != nil {
				return err
			}
			d, err := r.NewCap()
			d.SetSenderHosted(top)
			return err
		})
		p.call(statDir(1, export(top)))
		p.aborted("not exported")
	case 4: // a bootstrap of the host's
		p.send(func(m rpc.Message) error {
			u, err := m.NewUnimplemented()
			if err == nil {
				_, err = u.NewBootstrap()
			}
			return err
		})
		p.aborted("not asked")
	case 5: // the host's call to a sink
		p.call(openFile(1, export(top), "project/hostile/f"))
		p.call(stream(2, result(1, 0), hosted(5)))
		c, err := p.next(rpc.Message_Which_call).Call()
		ok(p, err)
		q := c.QuestionId()
		p.send(func(m rpc.Message) error {
			u, err := m.NewUnimplemented()
			if err != nil {
				return err
			}
			w, err := u.NewCall()
			w.SetQuestionId(q)
			return err
		})
		p.fails(2, "invalid")
		p.alive(top)
	}
}

func disembargoOfAll(a *assault) {
	p, _, top := a.guest()
	p.call(openFile(1, export(top), "project/hostile/f"))
	p.works(1)
	aims := []target{export(0), export(1), export(2), export(never), result(1), result(1, 0), result(1, 0, 0), result(never), result(askedTop, 0, 0), result(askedBoot)}
	contexts := []func(rpc.Disembargo_context){
		func(c rpc.Disembargo_context) { c.SetSenderLoopback(uint32(a.round)) },
		func(c rpc.Disembargo_context) { c.SetReceiverLoopback(uint32(a.round)) },
		func(c rpc.Disembargo_context) { c.SetAccept([]byte("to a third party")) },
		func(c rpc.Disembargo_context) { capnp.Struct(c).SetUint16(4, 99) },
	}
	p.disembargo(aims[a.round%len(aims)], contexts[a.round/len(aims)%len(contexts)])
	p.aborted("")
}

// promiseAttacks resolve promises as no honest guest does. The host waits for
// where a promise leads when it is to move something there.
func promiseAttacks() []hostileRow {
	return []hostileRow{
		refused("promise resolved to itself", "what is moved there is unsupported", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.resolve(5, promise(5))
			p.fails(1, "unsupported")
		}),
		refused("two promises resolved to each other, again and again", "unsupported, both", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.call(moveTo(2, export(top), promise(6)))
			for range 100 { // one that was resolved is a new one when it is named again
				p.resolve(5, promise(6))
				p.resolve(6, promise(5))
			}
			p.failAll(2, "unsupported")
		}),
		refused("ring of 200 promises", "unsupported, all", func(p *peer, _, top uint32) {
			const n = 200
			for i := range uint32(n) {
				p.call(moveTo(i, export(top), promise(i)))
			}
			for i := range uint32(n + n/2) {
				p.resolve(i%n, promise((i+1)%n))
			}
			p.failAll(n, "unsupported")
		}),
		refused("chain of 10,000 promises", "unsupported", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(0)))
			for i := range uint32(10_000) {
				p.resolve(i, promise(i+1))
			}
			p.fails(1, "unsupported")
		}),
		{name: "promise resolved twice, in use", must: "abort, or nothing where it is gone already", do: func(a *assault) {
			p, _, top := a.guest()
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), promise(5)))
			p.next(rpc.Message_Which_call)
			p.resolve(5, promise(6))
			p.resolve(5, promise(7))
			p.call(statDir(3, export(top)))
			for {
				m, ok := p.recv()
				if !ok {
					break
				}
				if m.Which() == rpc.Message_Which_return {
					if r, _ := m.Return(); r.AnswerId() == 3 {
						break
					}
				}
			}
		}},
		breach("resolution of what is no promise", "no promise", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), hosted(5)))
			p.next(rpc.Message_Which_call)
			p.resolve(5, hosted(6))
		}),
		refused("10,000 resolutions of promises never made", "nothing: what they brought is released", func(p *peer, _, top uint32) {
			p.swallowing(top, func() {
				for i := range uint32(10_000) {
					p.resolve(never+i, hosted(i))
				}
			})
		}),
		breach("promise resolved to an answer never given", "not open", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.resolve(5, theirAnswer(never, 0))
		}),
		refused("promise resolved to the call that waits for it", "nothing: it waits as long as the connection lasts", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.resolve(5, theirAnswer(1, 0))
			p.finish(1, true)
		}),
		refused("promise resolved to a directory of the host", "notFound: it is a directory after all", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.resolve(5, theirs(top))
			p.fails(1, "notFound")
		}),
		refused("promise broken with a revoke", "unsupported: it is not ours", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5)))
			p.send(func(m rpc.Message) error {
				r, err := m.NewResolve()
				if err != nil {
					return err
				}
				r.SetPromiseId(5)
				e, err := r.NewException()
				if err != nil {
					return err
				}
				return e.SetReason("revoked: and so are all others")
			})
			p.fails(1, "unsupported")
		}),
		{name: "300 moves to promises that never resolve", must: "nothing, and it ends with the connection", do: func(a *assault) {
			p, _, top := a.guest()
			for i := range uint32(300) {
				p.call(moveTo(i, export(top), promise(i)))
			}
			p.flush()
			time.Sleep(5 * time.Millisecond)
		}},
	}
}

// swallowing does what f does while somebody reads what the host sends, and then
// says that the connection goes on.
func (p *peer) swallowing(top uint32, f func()) {
	p.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		p.call(statDir(askedLater+1, export(top)))
		p.flush()
	}()
	p.nc.SetReadDeadline(time.Now().Add(patience))
	for {
		msg, err := p.dec.Decode()
		if err != nil {
			p.Errorf("the connection ended: %v", err)
			break
		}
		m, err := rpc.ReadRootMessage(msg)
		if err != nil {
			p.Errorf("the host's message cannot be read: %v", err)
			break
		}
		if m.Which() != rpc.Message_Which_return {
			continue
		}
		if r, err := m.Return(); err == nil && r.AnswerId() == askedLater+1 {
			break
		}
	}
	<-done
}

// questionAttacks abuse calls and their results.
func questionAttacks() []hostileRow {
	return []hostileRow{
		breach("flood of bootstraps", "limit", func(p *peer, _, _ uint32) {
			for i := range uint32(17_000) {
				p.bootstrap(i)
			}
		}),
		refused("20,000 bootstraps, finished at once", "nothing", func(p *peer, _, top uint32) {
			p.swallowing(top, func() {
				for i := range uint32(20_000) {
					p.bootstrap(i)
					p.finish(i, true)
				}
			})
		}),
		{name: "20,000 questions that are not finished", must: "the connection ends", do: func(a *assault) {
			p, _, top := a.guest()
			for i := range uint32(20_000) {
				p.call(statDir(i, export(top)))
			}
			p.ended()
		}},
		refused("provide, accept, join and messages of tomorrow", "each comes back unimplemented", func(p *peer, _, _ uint32) {
			for _, fill := range []func(rpc.Message) error{
				func(m rpc.Message) error { _, err := m.NewProvide(); return err },
				func(m rpc.Message) error { _, err := m.NewAccept(); return err },
				func(m rpc.Message) error { _, err := m.NewJoin(); return err },
				func(m rpc.Message) error { _, err := m.NewThirdPartyAnswer(); return err },
				func(m rpc.Message) error { capnp.Struct(m).SetUint16(0, 9); return nil }, // obsolete: save
				func(m rpc.Message) error { capnp.Struct(m).SetUint16(0, 65_535); return nil },
			} {
				p.send(fill)
				p.next(rpc.Message_Which_unimplemented)
			}
		}),
		refused("results for a third party", "unimplemented", func(p *peer, _, top uint32) {
			c := statDir(1, export(top))
			c.also = func(w rpc.Call) error { return w.SendResultsTo().SetThirdParty(capnp.Ptr{}) }
			p.call(c)
			p.next(rpc.Message_Which_unimplemented)
		}),
		refused("results kept and never asked for", "nothing", func(p *peer, _, top uint32) {
			for i := range uint32(2000) {
				p.call(openDir(i, export(top), "project/hostile").yourself())
			}
			for range 2000 {
				r, err := p.next(rpc.Message_Which_return).Return()
				ok(p, err)
				if r.Which() != rpc.Return_Which_resultsSentElsewhere {
					p.Errorf("a %v", r.Which())
				}
				p.finish(r.AnswerId(), true)
			}
		}),
		breach("results taken of a question never asked", "keeps none", func(p *peer, _, top uint32) {
			p.sinkReturns(top, func(r rpc.Return) error { r.SetTakeFromOtherQuestion(never); return nil })
		}),
		breach("results taken of a question that keeps none", "keeps none", func(p *peer, _, top uint32) {
			p.sinkReturns(top, func(r rpc.Return) error { r.SetTakeFromOtherQuestion(askedTop); return nil })
		}),
		breach("results sent elsewhere, unasked", "not asked for", func(p *peer, _, top uint32) {
			p.sinkReturns(top, func(r rpc.Return) error { r.SetResultsSentElsewhere(); return nil })
		}),
		refused("results taken of the call that waits for them", "nothing: it waits as long as the connection lasts", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(stream(2, result(1, 0), hosted(5)).yourself())
			c, err := p.next(rpc.Message_Which_call).Call()
			ok(p, err)
			p.answer(c.QuestionId(), func(r rpc.Return) error { r.SetTakeFromOtherQuestion(2); return nil })
			p.finish(2, true)
		}),
		refused("method numbers out of range", "unimplemented, each", func(p *peer, session, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			caps, _ := p.works(1)
			q := uint32(2)
			for id, iface := range map[uint32]uint64{session: schema.Session_TypeID, top: schema.Dir_TypeID, caps[0]: schema.File_TypeID} {
				for _, m := range []uint16{50, 255, 256, 32_767, 32_768, 65_535} {
					p.call(call{q: q, to: export(id), iface: iface, method: m})
					p.fails(q, "method not implemented")
					q++
				}
			}
		}),
		refused("every method of every interface, on what has another", "unimplemented, each", func(p *peer, session, top uint32) {
			q := uint32(1)
			for _, i := range schema.Interfaces {
				for m := range i.Methods {
					for id, own := range map[uint32]uint64{session: schema.Session_TypeID, top: schema.Dir_TypeID} {
						if own == i.ID {
							continue
						}
						p.call(call{q: q, to: export(id), iface: i.ID, method: uint16(m)})
						p.fails(q, "method not implemented")
						q++
					}
				}
			}
			p.call(call{q: q, to: export(top), iface: ^uint64(0)})
			p.fails(q, "method not implemented")
		}),
		{name: "every method without parameters", must: "an answer or a typed error, never internal", do: withoutParameters},
		refused("pipelined where there is no capability", "a typed error, each", func(p *peer, _, top uint32) {
			q := uint32(1)
			for _, path := range [][]uint16{{}, {0}, {1}, {9}, {65_535}, {0, 0}, {0, 1, 2, 3}} {
				p.call(statDir(q, export(top)))
				p.call(statDir(q+1, result(q, path...)))
				p.fails(q+1, "")
				q += 2
			}
		}),
		breach("pipelined path of 65 steps", "path of 65 steps", func(p *peer, _, top uint32) {
			p.call(openDir(1, export(top), "project"))
			p.call(statDir(2, result(1, make([]uint16, 65)...)))
		}),
		breach("pipelined path with an unknown step", "unknown step", func(p *peer, _, top uint32) {
			p.call(openDir(1, export(top), "project"))
			p.call(statDir(2, func(t rpc.MessageTarget) error {
				pa, err := t.NewPromisedAnswer()
				if err != nil {
					return err
				}
				pa.SetQuestionId(1)
				ops, err := pa.NewTransform(1)
				capnp.Struct(ops.At(0)).SetUint16(0, 40)
				return err
			}))
		}),
		refused("2,000 pipelined paths of one call", "limit beyond 1,024", func(p *peer, _, top uint32) {
			p.call(moveTo(1, export(top), promise(5))) // it waits
			for i := range uint32(2000) {
				p.call(statDir(10+i, result(1, uint16(i))))
			}
			p.resolve(5, promise(5))
			limits := 0
			for range 2001 {
				r, err := p.next(rpc.Message_Which_return).Return()
				ok(p, err)
				e, err := r.Exception()
				ok(p, err)
				if why, _ := e.Reason(); strings.HasPrefix(why, "limit") {
					limits++
				}
			}
			if limits < 900 {
				p.Errorf("%d calls met a limit", limits)
			}
		}),
		refused("40,000 calls in pipelined chains, finished early", "nothing", func(p *peer, _, top uint32) {
			p.swallowing(top, func() {
				for q := uint32(0); q < 50_000; q += 5 {
					p.call(openDir(q, export(top), "project"))
					p.call(openDir(q+1, result(q, 0), "hostile"))
					p.call(of(q+2, result(q+1, 0), schema.Dir_readOnly, nil))
					p.call(openFile(q+3, result(q+2, 0), "f"))
					p.call(read(q+4, result(q+3, 0), 0, 64))
					for i := range uint32(5) {
						p.finish(q+i, true)
					}
				}
			})
		}),
		{name: "abort in mid-call", must: "nothing: what was under way ends", do: func(a *assault) {
			p, top, file := a.holding()
			for i := range uint32(20) {
				p.call(stream(2+i*3, export(file), hosted(5)))
				p.call(of(3+i*3, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error { return s.SetPath("project/hostile/never") }))
				p.call(of(4+i*3, result(3+i*3, 0), schema.Writer_write, func(s schema.Writer_write_Params) error { return s.SetData(make([]byte, 1000)) }))
			}
			p.send(func(m rpc.Message) error {
				e, err := m.NewAbort()
				if err != nil {
					return err
				}
				return e.SetReason("\x1b[2J enough")
			})
			p.ended()
		}},
		refused("10,000 heavy calls, called off at once", "nothing", func(p *peer, _, top uint32) {
			p.swallowing(top, func() {
				for q := range uint32(10_000) {
					p.call(globFor(q, export(top), "project/h*/*"))
					p.finish(q, true)
				}
			})
		}),
	}
}

// sinkReturns has the host call a sink, and returns that call by hand.
func (p *peer) sinkReturns(top uint32, fill func(rpc.Return) error) {
	p.call(openFile(1, export(top), "project/hostile/f"))
	p.call(stream(2, result(1, 0), hosted(5)))
	c, err := p.next(rpc.Message_Which_call).Call()
	ok(p, err)
	p.answer(c.QuestionId(), fill)
}

func globFor(q uint32, dir target, pattern string) call {
	return of(q, dir, schema.Dir_glob, func(p schema.Dir_glob_Params) error { return p.SetPattern(pattern) })
}

// withoutParameters calls every method with the null pointer for its parameters,
// and with an empty struct, on an object that has it.
func withoutParameters(a *assault) {
	p, session, top := a.guest()
	p.call(openFile(1, export(top), "project/hostile/f"))
	p.call(of(2, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error { return s.SetPath("project/hostile/never") }))
	p.call(of(3, export(top), schema.Dir_revocable, nil))
	file, _ := p.works(1)
	writer, _ := p.works(2)
	revocable, _ := p.works(3)
	q := uint32(10)
	for _, o := range []struct {
		id    uint32
		iface uint64
	}{
		{session, schema.Session_TypeID}, {top, schema.Dir_TypeID}, {file[0], schema.File_TypeID},
		{writer[0], schema.Writer_TypeID}, {revocable[0], schema.Revoker_TypeID},
	} {
		for m := range methodsOf(o.iface) {
			for _, params := range []func(rpc.Payload) error{nil, func(w rpc.Payload) error {
				s, err := capnp.NewStruct(w.Segment(), capnp.ObjectSize{})
				return errors.Join(err, w.SetContent(s.ToPtr()))
			}} {
				if o.iface == schema.File_TypeID && (m == int(schema.File_truncate.ID) || m == int(schema.File_writeText.ID) || m == int(schema.File_writeBytes.ID)) {
					continue // they would do as they are told
				}
				p.call(call{q: q, to: export(o.id), iface: o.iface, method: uint16(m), params: params})
				if r := p.ret(q); r.Which() == rpc.Return_Which_exception {
					e, err := r.Exception()
					ok(p, err)
					why, _ := e.Reason()
					if why == "" || strings.HasPrefix(why, "internal") {
						p.Errorf("method %d of %x: %q", m, o.iface, why)
					}
				}
				q++
			}
		}
	}
	p.alive(top)
}

// methodsOf lists an interface's methods.
func methodsOf(iface uint64) []string {
	for _, i := range schema.Interfaces {
		if i.ID == iface {
			return i.Methods
		}
	}
	panic(fmt.Sprintf("no interface %x", iface))
}

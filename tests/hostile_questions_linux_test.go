package tests

import (
	"errors"
	"fmt"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
)

// questionAttacks misuse calls and their results.
func questionAttacks() []hostileRow {
	return []hostileRow{
		breach("flood of bootstraps", "limit", func(p *peer, _, top uint32) {
			// The answers are read first: an Abort behind many unread answers may not be sent in
			// time.
			const most = 16_384 - 2 // less what a guest has asked already
			p.swallowing(top, func() {
				for i := range uint32(most - 1) {
					p.bootstrap(i)
				}
			})
			for i := range uint32(10) {
				p.bootstrap(most + i)
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
					p.fails(q, "unsupported")
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
						p.fails(q, "unsupported")
						q++
					}
				}
			}
			p.call(call{q: q, to: export(top), iface: ^uint64(0)})
			p.fails(q, "unsupported")
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
				if why, _ := e.Reason(); coded(why, "limit") {
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

// sinkReturns makes the host call a sink, and fills in the Return of that call by hand.
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

// withoutParameters calls every method on an object that has it, with the null pointer as
// parameters and with an empty struct.
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
					continue // these would succeed
				}
				p.call(call{q: q, to: export(o.id), iface: o.iface, method: uint16(m), params: params})
				if r := p.ret(q); r.Which() == rpc.Return_Which_exception {
					e, err := r.Exception()
					ok(p, err)
					why, _ := e.Reason()
					if why == "" || coded(why, "internal") {
						p.Errorf("method %d of %x: %q", m, o.iface, why)
					}
				}
				q++
			}
		}
	}
	p.alive(top)
}

// methodsOf lists the methods of an interface.
func methodsOf(iface uint64) []string {
	for _, i := range schema.Interfaces {
		if i.ID == iface {
			return i.Methods
		}
	}
	panic(fmt.Sprintf("no interface %x", iface))
}

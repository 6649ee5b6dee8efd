package tests

import (
	"errors"
	"slices"
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

// tableAttacks send wrong ids for the four tables.
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
			p.call(call{q: 7}) // the host reads it as the export 0
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
	case 2: // a resolution of something that the host never promised
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
	case 3: // a resolution to what the host does export, which releases it by another name
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
	case 4: // a bootstrap of a capability of the host
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

// promiseAttacks resolve promises as no honest guest does. The host waits for the
// resolution when it is to move something to a promise.
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
			for range 100 { // a promise that was resolved is a new promise when it is named again
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
				return e.SetReason("capd: revoked: and so are all others")
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

// swallowing runs f while another goroutine reads what the host sends. Then it checks
// that the connection still works.
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

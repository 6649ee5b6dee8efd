package vat_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// Each breach of the protocol ends the connection with an Abort that says which one.
func TestBreaches(t *testing.T) {
	type attack func(r *raw, boot uint32)
	for name, c := range map[string]struct {
		do   attack
		want string
	}{
		"call on its own question":    {func(r *raw, _ uint32) { r.call(7, 1, 1, toAnswer(7)) }, "not open"},
		"call on an unknown question": {func(r *raw, _ uint32) { r.call(7, 1, 1, toAnswer(99)) }, "not open"},
		"call on an unknown export":   {func(r *raw, _ uint32) { r.call(7, 1, 1, toExport(99)) }, "not exported"},
		"call without a target": {func(r *raw, boot uint32) {
			r.release(boot, 1)
			r.call(7, 1, 1)
		}, "not exported"},
		"question id in use": {func(r *raw, boot uint32) {
			r.call(7, tp.Server_TypeID, 2, toExport(boot))
			r.call(7, tp.Server_TypeID, 2, toExport(boot))
		}, "open already"},
		"call on a question that was finished and runs": {func(r *raw, boot uint32) {
			r.finishEarly(7, boot)
			r.call(9, tp.Chain_TypeID, 1, toAnswer(7, 0))
		}, "not open"},
		"double finish of a call that runs": {func(r *raw, boot uint32) {
			r.finishEarly(7, boot)
			r.finish(7, false)
		}, "not open"},
		"results taken of a question that was finished and runs": {func(r *raw, boot uint32) {
			r.call(6, tp.Server_TypeID, 3, toExport(boot), capParam(func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil }))
			q, _ := r.asked()
			r.finishEarly(7, boot, func(c rpc.Call) error { c.SendResultsTo().SetYourself(); return nil })
			r.send(func(m rpc.Message) error {
				ret, err := m.NewReturn()
				ret.SetAnswerId(q)
				ret.SetTakeFromOtherQuestion(7)
				return err
			})
		}, "keeps none"},
		"capability table of entries without a size": {func(r *raw, boot uint32) {
			r.call(7, tp.Server_TypeID, 3, toExport(boot), func(c rpc.Call) error {
				p, err := c.NewParams()
				if err != nil {
					return err
				}
				l, err := capnp.NewCompositeList(p.Segment(), capnp.ObjectSize{}, 60_000)
				if err != nil {
					return err
				}
				return capnp.Struct(p).SetPtr(1, l.ToPtr())
			})
		}, "capability table of 60000 entries"},
		"bootstrap id in use":        {func(r *raw, _ uint32) { r.bootstrap(1000) }, "open already"},
		"finish of nothing":          {func(r *raw, _ uint32) { r.finish(7, true) }, "not open"},
		"double finish":              {func(r *raw, _ uint32) { r.finish(1000, false); r.finish(1000, false) }, "not open"},
		"release of nothing":         {func(r *raw, _ uint32) { r.release(99, 1) }, "never exported"},
		"release of more than given": {func(r *raw, boot uint32) { r.release(boot, 2) }, "more references"},
		"return of nothing": {func(r *raw, _ uint32) {
			r.send(func(m rpc.Message) error { _, err := m.NewReturn(); return err })
		}, "not asked"},
		"disembargo of a local object": {func(r *raw, boot uint32) { r.disembargo(boot) }, "does not lead back"},
		"disembargo of a call without results": {func(r *raw, boot uint32) {
			r.call(7, 1, 1, toExport(boot))
			r.exception(7)
			r.send(func(m rpc.Message) error {
				d, err := m.NewDisembargo()
				if err != nil {
					return err
				}
				d.Context().SetSenderLoopback(3)
				tgt, err := d.NewTarget()
				if err != nil {
					return err
				}
				return promised(tgt.NewPromisedAnswer())(7, []uint16{0})
			})
		}, "does not lead back"},
		"disembargo of a call that runs": {func(r *raw, boot uint32) {
			r.call(7, tp.Server_TypeID, 3, toExport(boot), capParam(func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil }))
			r.asked() // and is not answered
			r.loopback(true, 3, func(t rpc.MessageTarget) error { return promised(t.NewPromisedAnswer())(7, []uint16{0}) })
		}, "was not returned"},
		"disembargo not asked for": {func(r *raw, boot uint32) {
			r.send(func(m rpc.Message) error {
				d, err := m.NewDisembargo()
				if err != nil {
					return err
				}
				d.Context().SetReceiverLoopback(3)
				_, err = d.NewTarget()
				return err
			})
		}, "not asked for"},
		"resolve of what is no promise": {func(r *raw, boot uint32) {
			r.hold(7, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
			r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderHosted(6); return nil })
		}, "no promise"},
		"receiverAnswer of an unknown question": {func(r *raw, boot uint32) {
			r.call(7, tp.Server_TypeID, 5, toExport(boot), capParam(func(d rpc.CapDescriptor) error {
				return promised(d.NewReceiverAnswer())(55, nil)
			}))
		}, "not open"},
		"message too large": {func(r *raw, _ uint32) { r.header(0, 1<<28) }, "limit"},
		"segments too large together": {func(r *raw, _ uint32) {
			var b [16]byte // two segments of 5 MiB
			binary.LittleEndian.PutUint32(b[:], 1)
			binary.LittleEndian.PutUint32(b[4:], 5<<17)
			binary.LittleEndian.PutUint32(b[8:], 5<<17)
			_, _ = r.nc.Write(b[:])
		}, "limit is 8388608"},
		"pipelined path of 65 steps": {func(r *raw, _ uint32) { r.call(7, 1, 1, toAnswer(1000, make([]uint16, 65)...)) }, "path of 65 steps"},
		"too many segments":          {func(r *raw, _ uint32) { r.header(1<<20, 0) }, "segments"},
		"message without a root":     {func(r *raw, _ uint32) { r.header(0, 0) }, "without a root"},
		"unimplemented for what was not asked": {func(r *raw, _ uint32) {
			r.send(func(m rpc.Message) error {
				u, err := m.NewUnimplemented()
				if err != nil {
					return err
				}
				_, err = u.NewCall()
				return err
			})
		}, "not asked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, vat.Limits{})
			c.do(r, r.boot())
			if got := r.aborted(); !strings.Contains(got, c.want) {
				t.Errorf("r.aborted() = %q, want it to contain %q", got, c.want)
			}
		})
	}
}

// finishEarly makes a call that runs for a while even if it is given up, and finishes it.
func (r *raw) finishEarly(q, boot uint32, opts ...callOpt) {
	r.t.Helper()
	counter := r.get(1, boot, 1)
	slow := params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
		s.SetUint32(4, 200) // ms
		return nil
	})
	r.call(q, tp.Counter_TypeID, 1, append(opts, toExport(counter), slow)...)
	r.call(q+1, tp.Counter_TypeID, 0, toExport(counter), params(capnp.ObjectSize{DataSize: 8}, 0,
		func(capnp.Struct, rpc.CapDescriptor_List) error { return nil }))
	r.back(q+1, rpc.Return_Which_results) // so that the first runs
	r.finish(q, false)
}

// What a result or a parameter gave to the peer belongs to the peer until a Finish or a Return gives it back, and no
// longer.
func TestGivenBack(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	r.get(1, boot, 0)
	kept := r.get(2, boot, 0)
	if got := r.live.Load(); got != 2 {
		t.Fatalf("r.live.Load() = %d, want 2", got)
	}
	r.finish(1, true)
	soon(t, func() bool { return r.live.Load() == 1 }, "a result stays that Finish gave back")
	r.finish(2, false)
	r.echoes(3, kept)
	r.release(kept, 1)
	soon(t, func() bool { return r.live.Load() == 0 }, "a result stays that was released")

	r.hold(4, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
	for _, back := range []bool{true, false} {
		a := vat.Send(t.Context(), r.world.kept(), tp.Echo_cap, func(p tp.Echo_cap_Params, c *vat.Caps) error {
			return p.SetCap(c.Put(r.serve(&echoObj{tracked{r.world}})))
		})
		call, err := r.come(rpc.Message_Which_call).Call()
		vat.OK(t, err)
		p, err := call.Params()
		vat.OK(t, err)
		table, err := p.CapTable()
		vat.OK(t, err)
		r.send(func(m rpc.Message) error {
			ret, err := m.NewReturn()
			if err != nil {
				return err
			}
			ret.SetAnswerId(call.QuestionId())
			ret.SetReleaseParamCaps(back)
			_, err = ret.NewResults()
			return err
		})
		_, _, err = a.Await(t.Context())
		vat.OK(t, err)
		a.Release()
		if !back {
			if got := r.live.Load(); got != 1 {
				t.Fatalf("r.live.Load() = %d, want 1", got)
			}
			r.release(table.At(0).SenderHosted(), 1)
		}
		soon(t, func() bool { return r.live.Load() == 0 }, "a parameter stays that was given back")
	}
}

func (r *raw) header(segments, words uint32) {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], segments)
	binary.LittleEndian.PutUint32(b[4:], words)
	_, _ = r.nc.Write(b[:])
}

func (r *raw) disembargo(export uint32) {
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetSenderLoopback(3)
		tgt, err := d.NewTarget()
		if err == nil {
			tgt.SetImportedCap(export)
		}
		return err
	})
}

// hold makes the server keep a capability that desc describes.
func (r *raw) hold(q, boot uint32, desc func(rpc.CapDescriptor) error) {
	r.t.Helper()
	r.call(q, tp.Server_TypeID, 5, toExport(boot), capParam(desc))
	r.expect(rpc.Message_Which_return)
	r.finish(q, true)
}

func (r *raw) resolve(promise uint32, desc func(rpc.CapDescriptor) error) {
	r.send(func(m rpc.Message) error {
		res, err := m.NewResolve()
		if err != nil {
			return err
		}
		res.SetPromiseId(promise)
		d, err := res.NewCap()
		if err != nil {
			return err
		}
		return desc(d)
	})
}

func TestUnknownMessagesAreEchoed(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	r.send(func(m rpc.Message) error {
		j, err := m.NewJoin()
		j.SetQuestionId(77)
		return err
	})
	u, err := r.expect(rpc.Message_Which_unimplemented).Unimplemented()
	vat.OK(t, err)
	if got := u.Which(); got != rpc.Message_Which_join {
		t.Fatalf("u.Which() = %v, want %v", got, rpc.Message_Which_join)
	}
	j, err := u.Join()
	vat.OK(t, err)
	if got := j.QuestionId(); got != 77 {
		t.Errorf("j.QuestionId() = %d, want 77", got)
	}
}

func TestCapabilityTableThatLies(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	// An index beyond the table is the null capability.
	r.call(1, tp.Server_TypeID, 3, toExport(boot), params(capnp.ObjectSize{DataSize: 8, PointerCount: 1}, 0,
		func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
			return s.SetPtr(0, capnp.NewInterface(s.Segment(), 4_000_000_000).ToPtr())
		}))
	if got := r.exception(1); !strings.Contains(got, "null") {
		t.Errorf("r.exception(1) = %q, want it to contain %q", got, "null")
	}
	// An export that does not exist is broken.
	r.call(2, tp.Server_TypeID, 3, toExport(boot), capParam(func(d rpc.CapDescriptor) error { d.SetReceiverHosted(1234); return nil }))
	if got := r.exception(2); !strings.Contains(got, "does not exist") {
		t.Errorf("r.exception(2) = %q, want it to contain %q", got, "does not exist")
	}
	// A capability of a third party is its vine.
	r.call(3, tp.Server_TypeID, 3, toExport(boot), capParam(func(d rpc.CapDescriptor) error {
		tp, err := d.NewThirdPartyHosted()
		tp.SetVineId(3)
		return err
	}))
	c, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	tgt, _ := c.Target()
	if got := tgt.ImportedCap(); got != 3 {
		t.Errorf("tgt.ImportedCap() = %d, want 3", got)
	}
}

func TestPromiseResolvedToItself(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	r.hold(1, boot, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	r.call(2, tp.Server_TypeID, 7, toExport(boot))
	for { // Release messages may come in between
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_return {
			break
		}
	}
	// The capability that it holds is broken now.
	r.call(3, tp.Chain_TypeID, 1, toAnswer(2, 0))
	if got := r.exception(3); !strings.Contains(got, "resolved to itself") {
		t.Errorf("r.exception(3) = %q, want it to contain %q", got, "resolved to itself")
	}
}

func TestTwoPromisesResolvedToEachOther(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	r.hold(1, boot, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6); return nil })
	r.resolve(6, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6); return nil })
	r.call(3, tp.Server_TypeID, 7, toExport(boot))
	r.call(4, tp.Chain_TypeID, 1, toAnswer(3, 0))
	for {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() != rpc.Message_Which_return {
			continue
		}
		ret, _ := m.Return()
		if ret.AnswerId() == 4 {
			if got := ret.Which(); got != rpc.Return_Which_exception {
				t.Errorf("ret.Which() = %v, want %v", got, rpc.Return_Which_exception)
			}
			return
		}
	}
}

func TestPipelinedChainsWithEarlyFinish(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	go func() { // so that the other side is never held up
		for {
			if _, err := r.dec.Decode(); err != nil {
				return
			}
		}
	}()
	const rounds = 3000
	for i := range uint32(rounds) {
		q := 2000 + i*5
		r.call(q, tp.Server_TypeID, 2, toExport(boot))
		r.call(q+1, tp.Chain_TypeID, 2, toAnswer(q, 0), params(capnp.ObjectSize{DataSize: 8}, 0, func(capnp.Struct, rpc.CapDescriptor_List) error { return nil }))
		r.call(q+2, tp.Chain_TypeID, 0, toAnswer(q+1, 0))
		r.call(q+3, tp.Chain_TypeID, 1, toAnswer(q+2, 0))
		for j := range uint32(4) {
			r.finish(q+j, true)
		}
	}
	soon(t, func() bool { s := r.conn.Stats(); return s.Answers == 1 && s.Calls == 0 }, "answers stay open")
	if err := r.conn.Err(); err != nil {
		t.Errorf("r.conn.Err(): %v", err)
	}
}

func TestBitFlips(t *testing.T) {
	rounds := 600
	if testing.Short() {
		rounds = 100
	}
	stream := honest(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	w := newWorld()
	for range rounds {
		flipped := append([]byte(nil), stream...)
		for range 1 + rnd.IntN(8) {
			flipped[rnd.IntN(len(flipped))] ^= 1 << rnd.IntN(8)
		}
		feed(t, w, flipped, time.Second)
	}
	w.drop()
	soon(t, func() bool { return w.live.Load() == 0 }, "objects leaked")
	noGoroutines(t)
}

// feed sends raw bytes to a server, reads its answers, and ends the connection.
func feed(t testing.TB, w *world, b []byte, limit time.Duration) {
	client, server := net.Pipe()
	conn := vat.NewConn(server, vat.Options{Bootstrap: vat.Serve(w.table, w), Logf: func(f string, a ...any) {
		if len(f) > 11 && f[:11] == "vat: panic:" { // not in a handler
			t.Errorf(f, a...)
		}
	}, Limits: vat.Limits{MessageBytes: 1 << 20}})
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
		}
	}()
	_ = client.SetWriteDeadline(time.Now().Add(limit))
	_, _ = client.Write(b)
	client.Close()
	select {
	case <-conn.Done():
	case <-time.After(patience):
		t.Fatal("the connection does not end")
	}
}

package tests

import (
	"errors"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
	"capd/vat"
)

// target is the target of a message.
type target func(rpc.MessageTarget) error

func export(id uint32) target {
	return func(t rpc.MessageTarget) error { t.SetImportedCap(id); return nil }
}

func result(q uint32, path ...uint16) target {
	return func(t rpc.MessageTarget) error {
		pa, err := t.NewPromisedAnswer()
		if err != nil {
			return err
		}
		return follow(pa, q, path)
	}
}

func follow(pa rpc.PromisedAnswer, q uint32, path []uint16) error {
	pa.SetQuestionId(q)
	ops, err := pa.NewTransform(int32(len(path)))
	for i, field := range path {
		ops.At(i).SetGetPointerField(field)
	}
	return err
}

func (p *peer) disembargo(to target, set func(rpc.Disembargo_context)) {
	p.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		set(d.Context())
		t, err := d.NewTarget()
		if err != nil {
			return err
		}
		return to(t)
	})
}

// descriptor is an entry of a capability table.
type descriptor func(rpc.CapDescriptor) error

func hosted(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetSenderHosted(id); return nil }
}

func promise(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetSenderPromise(id); return nil }
}

func theirs(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetReceiverHosted(id); return nil }
}

func theirAnswer(q uint32, path ...uint16) descriptor {
	return func(d rpc.CapDescriptor) error {
		pa, err := d.NewReceiverAnswer()
		if err != nil {
			return err
		}
		return follow(pa, q, path)
	}
}

// call is a call as it is to be sent.
type call struct {
	q      uint32
	to     target
	iface  uint64
	method uint16
	params func(rpc.Payload) error
	also   func(rpc.Call) error
}

func (p *peer) call(c call) { p.send(c.fill) }

func (c call) fill(m rpc.Message) error {
	w, err := m.NewCall()
	if err != nil {
		return err
	}
	w.SetQuestionId(c.q)
	w.SetInterfaceId(c.iface)
	w.SetMethodId(c.method)
	if c.to != nil {
		t, err := w.NewTarget()
		if err != nil {
			return err
		}
		if err := c.to(t); err != nil {
			return err
		}
	}
	payload, err := w.NewParams()
	if err != nil {
		return err
	}
	if c.params != nil {
		if err := c.params(payload); err != nil {
			return err
		}
	}
	if c.also != nil {
		return c.also(w)
	}
	return nil
}

// of returns a call of a method, with its parameters and its capability table.
func of[P, R ~capnp.StructKind](q uint32, to target, m vat.Method[P, R], fill func(P) error, caps ...descriptor) call {
	return call{q: q, to: to, iface: m.Interface, method: m.ID, params: func(payload rpc.Payload) error {
		s, err := capnp.NewStruct(payload.Segment(), m.Params)
		if err != nil {
			return err
		}
		if err := payload.SetContent(s.ToPtr()); err != nil {
			return err
		}
		if fill != nil {
			if err := fill(P(s)); err != nil {
				return err
			}
		}
		if len(caps) == 0 {
			return nil
		}
		table, err := payload.NewCapTable(int32(len(caps)))
		if err != nil {
			return err
		}
		for i, d := range caps {
			if err := d(table.At(i)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// yourself makes the host keep the results.
func (c call) yourself() call {
	c.also = func(w rpc.Call) error { w.SendResultsTo().SetYourself(); return nil }
	return c
}

// pointer is a capability pointer to the i-th entry of the capability table.
func pointer[P ~capnp.StructKind](p P, i uint32) capnp.Interface {
	return capnp.NewInterface(capnp.Struct(p).Segment(), capnp.CapabilityID(i))
}

// Calls that many attacks use.

func restore(q uint32, session target, secret []byte) call {
	return of(q, session, schema.Session_restore, func(p schema.Session_restore_Params) error { return p.SetSecret(secret) })
}

func openFile(q uint32, dir target, path string) call {
	return of(q, dir, schema.Dir_openFile, func(p schema.Dir_openFile_Params) error { return p.SetPath(path) })
}

func openDir(q uint32, dir target, path string) call {
	return of(q, dir, schema.Dir_openDir, func(p schema.Dir_openDir_Params) error { return p.SetPath(path) })
}

func read(q uint32, file target, off uint64, n uint32) call {
	return of(q, file, schema.File_read, func(p schema.File_read_Params) error {
		p.SetOffset(off)
		p.SetLength(n)
		return nil
	})
}

// stream streams a whole file to the capability that sink describes.
func stream(q uint32, file target, sink descriptor) call {
	return of(q, file, schema.File_stream, func(p schema.File_stream_Params) error { return p.SetSink(pointer(p, 0)) }, sink)
}

// moveTo moves a path that does not exist to a directory that dst describes.
func moveTo(q uint32, dir target, dst descriptor) call {
	return of(q, dir, schema.Dir_move, func(p schema.Dir_move_Params) error {
		if err := errors.Join(p.SetPath("hostile/none"), p.SetNewPath("hostile/new")); err != nil {
			return err
		}
		return p.SetDst(pointer(p, 0))
	}, dst)
}

func statDir(q uint32, dir target) call { return of(q, dir, schema.Dir_stat, nil) }

package vat

import "capnproto.org/go/capnp/v3/std/capnp/rpc"

// Messages without a payload. Each builder returns nil if it cannot allocate memory.

func build(fill func(rpc.Message) error) *message {
	m, err := newOutbound(aControl, 0)
	if err != nil {
		return nil
	}
	root, err := rpc.NewRootMessage(m.seg)
	if err == nil {
		err = fill(root)
	}
	if err != nil {
		m.unref()
		return nil
	}
	return m
}

func abortMessage(reason string) *message {
	return build(func(root rpc.Message) error {
		e, err := root.NewAbort()
		if err != nil {
			return err
		}
		return writeException(e, exceptionf(Failed, "%s", reason))
	})
}

func bootstrapMessage(id uint32) *message {
	return build(func(root rpc.Message) error {
		b, err := root.NewBootstrap()
		if err != nil {
			return err
		}
		b.SetQuestionId(id)
		return nil
	})
}

// returnMessage is a Return without results.
func returnMessage(id uint32, fill func(rpc.Return) error) *message {
	return build(func(root rpc.Message) error {
		r, err := root.NewReturn()
		if err != nil {
			return err
		}
		r.SetAnswerId(id)
		r.SetReleaseParamCaps(false)
		return fill(r)
	})
}

func exceptionReturn(id uint32, e *Exception) *message {
	return returnMessage(id, func(r rpc.Return) error {
		w, err := r.NewException()
		if err != nil {
			return err
		}
		return writeException(w, e)
	})
}

// unimplementedMessage returns m, which this side does not support, to the peer (rpc.capnp,
// Message.unimplemented).
func unimplementedMessage(in *message, m rpc.Message) *message {
	in.msg.ResetReadLimit(uint64(2*in.bytes()) + 1<<16)
	out := build(func(root rpc.Message) error {
		return root.SetUnimplemented(m)
	})
	if out != nil {
		out.msg.CapTable().Reset()
	}
	return out
}

// writeTransform writes a pipelined path (rpc.capnp, PromisedAnswer).
func writeTransform(pa rpc.PromisedAnswer, question uint32, path []uint16) error {
	pa.SetQuestionId(question)
	if len(path) == 0 {
		return nil
	}
	ops, err := pa.NewTransform(int32(len(path)))
	if err != nil {
		return err
	}
	for i, field := range path {
		ops.At(i).SetGetPointerField(field)
	}
	return nil
}

// readTransform reads a pipelined path.
func readTransform(pa rpc.PromisedAnswer) ([]uint16, error) {
	ops, err := pa.Transform()
	if err != nil {
		return nil, err
	}
	if ops.Len() > maxPath {
		return nil, protocolf("pipelined path of %d steps", ops.Len())
	}
	path := make([]uint16, 0, ops.Len())
	for i := range ops.Len() {
		switch op := ops.At(i); op.Which() {
		case rpc.PromisedAnswer_Op_Which_noop:
		case rpc.PromisedAnswer_Op_Which_getPointerField:
			path = append(path, op.GetPointerField())
		default:
			return nil, protocolf("unknown step in a pipelined path")
		}
	}
	return path, nil
}

package vat

import (
	"runtime/debug"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// handle handles one message of the peer, which it takes over (rpc.capnp, Message). An error ends the
// connection, with Message.abort if the peer broke a rule. An unknown message is answered with
// Message.unimplemented.
func (c *Conn) handle(m *message) error {
	if b := m.single(); b != nil {
		call, isCall, isReturn := plain(b)
		if isCall || isReturn {
			if err := m.rootAt(b, call.content); err != nil {
				m.unref()
				return malformed(err)
			}
			switch {
			case isCall:
				return c.handlePlainCall(m, b, &call)
			case call.table.n > 0:
				return c.handleCapResults(m, b, &call)
			}
			return c.handleResults(m, call.question)
		}
	}
	root, err := rpc.ReadRootMessage(&m.msg)
	if err != nil {
		m.unref()
		return malformed(err)
	}
	// These two take over the message.
	switch root.Which() {
	case rpc.Message_Which_call:
		call, err := root.Call()
		if err != nil {
			m.unref()
			return malformed(err)
		}
		return c.handleCall(m, root, call)
	case rpc.Message_Which_return:
		ret, err := root.Return()
		if err != nil {
			m.unref()
			return malformed(err)
		}
		return c.handleReturn(m, ret)
	}
	defer m.unref()
	switch root.Which() {
	case rpc.Message_Which_unimplemented:
		inner, err := root.Unimplemented()
		if err != nil {
			return malformed(err)
		}
		return c.handleUnimplemented(inner)
	case rpc.Message_Which_abort:
		e, err := root.Abort()
		if err != nil {
			return malformed(err)
		}
		return &AbortError{readException(e).Reason}
	case rpc.Message_Which_bootstrap:
		b, err := root.Bootstrap()
		if err != nil {
			return malformed(err)
		}
		return c.handleBootstrap(b.QuestionId())
	case rpc.Message_Which_finish:
		f, err := root.Finish()
		if err != nil {
			return malformed(err)
		}
		return c.handleFinish(f.QuestionId(), f.ReleaseResultCaps())
	case rpc.Message_Which_resolve:
		r, err := root.Resolve()
		if err != nil {
			return malformed(err)
		}
		return c.handleResolve(r)
	case rpc.Message_Which_release:
		r, err := root.Release()
		if err != nil {
			return malformed(err)
		}
		return c.handleRelease(r.Id(), uint64(r.ReferenceCount()))
	case rpc.Message_Which_disembargo:
		d, err := root.Disembargo()
		if err != nil {
			return malformed(err)
		}
		return c.handleDisembargo(d)
	}
	// Levels 3 and 4, obsolete messages, and those of later versions.
	c.echoUnimplemented(m, root)
	return nil
}

func malformed(err error) error { return protocolf("malformed message: %v", err) }

// fault returns the error that ends the connection for an error of handle. An error that is neither a broken
// rule nor the end of the connection means that the message is malformed.
func fault(err error) error {
	switch err.(type) {
	case nil, *ProtocolError, *AbortError:
		return err
	}
	return malformed(err)
}

func (c *Conn) echoUnimplemented(m *message, root rpc.Message) {
	out := unimplementedMessage(m, root)
	c.mu.Lock()
	if !c.closed {
		c.send(out)
	}
	c.mu.Unlock()
}

// caught turns a panic in the decoding of a message into an error. It is for code that holds a lock.
func caught(err *error) {
	if p := recover(); p != nil {
		logf("vat: panic: %v\n%s", p, debug.Stack())
		*err = protocolf("malformed message")
	}
}

// handleUnimplemented takes back a message that the peer did not understand (rpc.capnp,
// Message.unimplemented).
func (c *Conn) handleUnimplemented(inner rpc.Message) error {
	switch inner.Which() {
	case rpc.Message_Which_call:
		call, err := inner.Call()
		if err != nil {
			return malformed(err)
		}
		return c.notAsked(call.QuestionId())
	case rpc.Message_Which_bootstrap:
		b, err := inner.Bootstrap()
		if err != nil {
			return malformed(err)
		}
		return c.notAsked(b.QuestionId())
	case rpc.Message_Which_resolve:
		// The peer keeps the promise. Release what the Resolve gave it.
		r, err := inner.Resolve()
		if err != nil {
			return malformed(err)
		}
		if r.Which() != rpc.Resolve_Which_cap {
			return nil
		}
		d, err := r.Cap()
		if err != nil {
			return malformed(err)
		}
		switch d.Which() {
		case rpc.CapDescriptor_Which_senderHosted:
			return c.handleRelease(d.SenderHosted(), 1)
		case rpc.CapDescriptor_Which_senderPromise:
			return c.handleRelease(d.SenderPromise(), 1)
		}
		return nil
	}
	return protocolf("the peer does not implement a message that every peer must")
}

// notAsked fails a question that the peer did not understand.
func (c *Conn) notAsked(id uint32) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	q := c.questions.get(id)
	if q == nil || q.returned {
		c.mu.Unlock()
		return protocolf("a question that was not asked is unimplemented")
	}
	q.returned = true
	q.over()
	c.questions.remove(id)
	c.questionIDs.put(id)
	gone := c.unexportAll(nil, q.exports)
	c.mu.Unlock()
	releaseAll(gone)
	q.ans.complete(nil, ErrNoMethod)
	return nil
}

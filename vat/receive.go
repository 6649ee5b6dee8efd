package vat

import (
	"log"
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
		return read(c.handleUnimplemented)(root.Unimplemented())
	case rpc.Message_Which_abort:
		return read(func(e rpc.Exception) error { return &AbortError{readException(e).Reason} })(root.Abort())
	case rpc.Message_Which_bootstrap:
		return read(func(b rpc.Bootstrap) error { return c.handleBootstrap(b.QuestionId()) })(root.Bootstrap())
	case rpc.Message_Which_finish:
		return read(func(f rpc.Finish) error { return c.handleFinish(f.QuestionId(), f.ReleaseResultCaps()) })(root.Finish())
	case rpc.Message_Which_resolve:
		return read(c.handleResolve)(root.Resolve())
	case rpc.Message_Which_release:
		return read(func(r rpc.Release) error { return c.handleRelease(r.Id(), uint64(r.ReferenceCount())) })(root.Release())
	case rpc.Message_Which_disembargo:
		return read(c.handleDisembargo)(root.Disembargo())
	}
	// Levels 3 and 4, obsolete messages, and those of later versions.
	c.echoUnimplemented(m, root)
	return nil
}

// read returns a function that handles a part of a message, if it can be read.
func read[T any](handle func(T) error) func(T, error) error {
	return func(part T, err error) error {
		if err != nil {
			return malformed(err)
		}
		return handle(part)
	}
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
		log.Printf("vat: panic: %v\n%s", p, debug.Stack())
		*err = protocolf("malformed message")
	}
}

// handleUnimplemented takes back a message that the peer did not understand (rpc.capnp,
// Message.unimplemented).
func (c *Conn) handleUnimplemented(inner rpc.Message) error {
	switch inner.Which() {
	case rpc.Message_Which_call:
		return read(func(call rpc.Call) error { return c.notAsked(call.QuestionId()) })(inner.Call())
	case rpc.Message_Which_bootstrap:
		return read(func(b rpc.Bootstrap) error { return c.notAsked(b.QuestionId()) })(inner.Bootstrap())
	case rpc.Message_Which_resolve:
		return read(c.takeBack)(inner.Resolve())
	}
	return protocolf("the peer does not implement a message that every peer must")
}

// takeBack releases what a Resolve gave the peer, which keeps the promise.
func (c *Conn) takeBack(r rpc.Resolve) error {
	if r.Which() != rpc.Resolve_Which_cap {
		return nil
	}
	return read(func(d rpc.CapDescriptor) error {
		switch d.Which() {
		case rpc.CapDescriptor_Which_senderHosted:
			return c.handleRelease(d.SenderHosted(), 1)
		case rpc.CapDescriptor_Which_senderPromise:
			return c.handleRelease(d.SenderPromise(), 1)
		}
		return nil
	})(r.Cap())
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
	c.forget(q)
	gone := c.unexportAll(nil, q.exports)
	c.mu.Unlock()
	releaseAll(gone)
	q.ans.complete(nil, ErrNoMethod)
	return nil
}

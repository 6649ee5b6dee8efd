package vat

import (
	"cmp"
	"sync"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// Calls of the peer: Bootstrap, Call, Finish and Release.

// open enters a question of the peer. It refuses a number that is in use: until the question was both
// returned and finished (rpc.capnp, QuestionId). Called with c.mu held.
func (c *Conn) open(id uint32, a *answer) error {
	if c.answers.get(id) != nil {
		return protocolf("question %d is open already", id)
	}
	if c.answers.len() >= c.limits.Answers {
		return protocolf("limit: %d questions are open", c.answers.len())
	}
	a.conn, a.id, a.users = c, id, 1
	c.answers.put(id, a)
	return nil
}

// handleBootstrap answers with a capability as the content, where a call has a struct (rpc.capnp, Bootstrap
// and Return.results).
func (c *Conn) handleBootstrap(id uint32) error {
	a := new(answer)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	err := c.open(id, a)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if c.options.Bootstrap == nil {
		a.complete(nil, exceptionf(Failed, "this vat has no bootstrap capability"))
		return nil
	}
	m, err := newReturn(0)
	if err == nil {
		caps := Caps{built: m}
		err = m.setContent(caps.Put(c.options.Bootstrap.AddRef()).ToPtr())
	}
	if err != nil {
		a.complete(nil, errInternal)
		return nil
	}
	a.complete(m, nil)
	return nil
}

// messageTarget returns the target of a call or a Disembargo (rpc.capnp, MessageTarget). The reference is the
// caller's. Called with c.mu held.
func (c *Conn) messageTarget(mt rpc.MessageTarget) (t target, err error) {
	defer caught(&err)
	switch mt.Which() {
	case rpc.MessageTarget_Which_importedCap:
		return c.exportedTarget(mt.ImportedCap())
	case rpc.MessageTarget_Which_promisedAnswer:
		pa, err := mt.PromisedAnswer()
		if err != nil {
			return nil, malformed(err)
		}
		return c.promised(pa)
	}
	return nil, protocolf("unknown kind of message target")
}

// exportedTarget returns the capability that the peer holds as export id. The reference is the caller's.
// Called with c.mu held.
func (c *Conn) exportedTarget(id uint32) (target, error) {
	e := c.exports.get(id)
	if e == nil {
		return nil, protocolf("message to a capability that is not exported")
	}
	e.target.retain()
	return e.target, nil
}

// incoming is the memory of a call that came in.
type incoming struct {
	answer  answer
	request request
}

// incomings has the memory of calls that nothing refers to any more: they ran on the reader and were finished
// afterwards. The memory of other calls is left to the garbage collector.
var incomings = sync.Pool{New: func() any { return new(incoming) }}

// handleCall handles a Call (rpc.capnp, Call). Its results may stay here (Call.sendResultsTo.yourself).
// Results for a third party are level 3: such a call is unimplemented.
func (c *Conn) handleCall(m *message, root rpc.Message, call rpc.Call) error {
	where := call.SendResultsTo().Which()
	if where != rpc.Call_sendResultsTo_Which_caller && where != rpc.Call_sendResultsTo_Which_yourself {
		c.echoUnimplemented(m, root)
		m.unref()
		return nil
	}
	mt, err := call.Target()
	params, perr := call.Params()
	if err = cmp.Or(err, perr); err != nil {
		m.unref()
		return malformed(err)
	}
	in := newIncoming(c, m, call.QuestionId(), call.InterfaceId(), call.MethodId(), where == rpc.Call_sendResultsTo_Which_yourself)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		m.unref()
		return nil
	}
	// Find the target first: a call cannot be a call on its own outcome.
	t, err := c.messageTarget(mt)
	if err == nil {
		err = c.acceptPayload(m, params)
	}
	return c.start(in, t, err)
}

// handlePlainCall is handleCall for a plain call.
func (c *Conn) handlePlainCall(m *message, b []byte, call *plainCall) error {
	in := newIncoming(c, m, call.question, call.iface, call.method, call.yourself)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		m.unref()
		return nil
	}
	var t target
	var err error
	if call.piped {
		t, err = c.answered(call.target, call.path.slice())
	} else {
		t, err = c.exportedTarget(call.target)
	}
	if err == nil {
		err = c.acceptPlain(m, b, call.table)
	}
	return c.start(in, t, err)
}

func newIncoming(c *Conn, m *message, question uint32, iface uint64, method uint16, yourself bool) *incoming {
	in := incomings.Get().(*incoming)
	in.request = request{iface: iface, method: method, params: m, ans: &in.answer, conn: c, direct: true}
	in.answer.request = &in.request
	in.answer.id = question
	in.answer.table.yourself = yourself
	return in
}

// start enters a call in the table and passes it to its target t. If err is not nil, it releases both and
// returns err, which ends the connection. Called with c.mu held; it unlocks it.
func (c *Conn) start(in *incoming, t target, err error) error {
	a, r := &in.answer, &in.request
	if err == nil {
		err = c.open(a.id, a)
	}
	if err != nil {
		c.mu.Unlock()
		if t != nil {
			t.release()
		}
		r.params.unref()
		return err
	}
	c.calls++
	c.callBytes += r.params.bytes()
	c.pursed += r.params.purse.taken
	c.hold()
	full, end := c.crowded()
	var refuse *Exception
	switch {
	case full != nil:
		refuse = exceptionf(Overloaded, "limit: %v", full)
	case c.calls > c.limits.Calls:
		refuse = exceptionf(Overloaded, "limit: %d calls are in progress", c.limits.Calls)
	case c.callBytes > c.limits.CallBytes:
		refuse = exceptionf(Overloaded, "limit: calls in progress hold %d bytes", c.limits.CallBytes)
	}
	c.mu.Unlock()

	defer t.release()
	if refuse != nil {
		lose(t, loss{methodKey{r.iface, r.method}, refuse})
		r.fail(refuse)
		if end {
			return errCrowded
		}
		return nil
	}
	t.call(r)
	if r.ran {
		a.ran = in
	}
	return nil
}

// handleFinish frees the results. If the call is still in progress and nothing else waits for its outcome, it
// cancels the call, which is returned all the same (rpc.capnp, Finish and Return.canceled). With releaseCaps
// it also releases the capabilities in the results (Finish.releaseResultCaps).
func (c *Conn) handleFinish(id uint32, releaseCaps bool) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	a := c.answers.get(id)
	if a == nil || a.table.finished {
		c.mu.Unlock()
		return protocolf("finish of a question that is not open")
	}
	e := &a.table
	e.finished = true
	var few [4]target
	gone := few[:0]
	if e.returned {
		c.answers.remove(id)
		c.resultBytes -= e.bytes
		if releaseCaps {
			gone = c.unexportAll(gone, e.exports)
		}
		e.exports = nil
		c.hold()
	}
	c.mu.Unlock()
	releaseAll(gone)
	in := a.ran
	if a.drop() && in != nil {
		*in = incoming{}
		incomings.Put(in)
	}
	return nil
}

// handleRelease takes back count references (rpc.capnp, Release.referenceCount).
func (c *Conn) handleRelease(id uint32, count uint64) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	t, err := c.unexport(id, count)
	c.mu.Unlock()
	if t != nil {
		t.release()
	}
	return err
}

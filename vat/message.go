package vat

import (
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A message is the memory of one message of the protocol, with the capabilities in its payload.
//
// A received message is read in place. An outbound message is built around its payload: first the envelope,
// then the parameters or results, and when it is sent, the capability table. References to a message are
// counted. The last unref releases the capabilities and returns the memory to its pool.
type message struct {
	refs  atomic.Int32
	msg   capnp.Message
	ro    capnp.ReadOnlySingleSegment // the arena of a received message of one segment
	buf   *buffer                     // the memory of msg; nil if go-capnp's arena owns it
	size  int64                       // of a received message, in bytes
	purse purse                       // of a received message: what it has taken of a meter

	capBytes int64 // of a received message: the memory of its capabilities

	kind kind           // how an outbound message is built
	seg  *capnp.Segment // of an outbound message: its one segment
	tail tail           // of an outbound message: what follows the segment
	sent atomic.Bool    // of an outbound message: it is sent, and its envelope used

	content capnp.Ptr // Payload.content
	caps    []*Cap    // Payload.capTable, by index

	copying sync.Mutex // guards msg's own capability table, which copyContent uses
}

// A kind is how a message is built.
type kind uint8

const (
	cameIn kind = iota
	aCall
	aReturn
	aControl // has no payload
)

var (
	messages = sync.Pool{New: func() any { return new(message) }}
	// arrivals has the memory of received messages of one segment. Their msg keeps ro as its arena.
	arrivals = sync.Pool{New: func() any { return new(message) }}
)

func newMessage() *message {
	m := messages.Get().(*message)
	m.refs.Store(1)
	return m
}

// newArrival returns the received message b of one segment.
func newArrival(b []byte) (*message, error) {
	m := arrivals.Get().(*message)
	m.refs.Store(1)
	m.ro.ReplaceData(b)
	if m.msg.Arena != nil {
		return m, nil
	}
	if _, err := m.msg.Reset(&m.ro); err != nil {
		m.unref()
		return nil, err
	}
	return m, nil
}

// newOutbound returns an empty message to build. With room, it has memory for that many bytes and can grow
// only a little more. Without room, it grows as needed.
func newOutbound(k kind, room int) (*message, error) {
	m := newMessage()
	m.kind = k
	var arena capnp.Arena
	if room > inlineFrame {
		m.buf = getBuffer(frameHeader + room + roomSlack)
		arena = capnp.SingleSegment(m.buf.b[frameHeader:frameHeader])
	} else {
		arena = capnp.SingleSegment(nil)
	}
	// Built here, so it needs no bounds.
	m.msg.DepthLimit, m.msg.TraverseLimit = 1<<30, 1<<62
	var err error
	if m.seg, err = m.msg.Reset(arena); err != nil {
		m.unref()
		return nil, err
	}
	return m, nil
}

// newEnvelope returns an outbound message that begins with an envelope.
func newEnvelope(k kind, words []uint64, room int) (*message, error) {
	m, err := newOutbound(k, room)
	if err != nil {
		return nil, err
	}
	if err := m.allocate(len(words) - 1); err != nil {
		m.unref()
		return nil, err
	}
	for i, w := range words {
		m.setWord(i, w)
	}
	return m, nil
}

// newCall returns a Call with allocated parameters.
func newCall(size capnp.ObjectSize) (*message, error) {
	m, err := newEnvelope(aCall, callEnvelope[:], 0)
	if err != nil {
		return nil, err
	}
	return m, m.newContent(size)
}

// newReturn returns a Return without content.
func newReturn(room int) (*message, error) {
	return newEnvelope(aReturn, returnEnvelope[:], room)
}

// contentAt returns the word of Payload.content.
func (m *message) contentAt() int {
	if m.kind == aCall {
		return callContent
	}
	return returnContent
}

// newContent allocates the struct of the payload right after the envelope. If it fails, it releases the
// message.
func (m *message) newContent(size capnp.ObjectSize) error {
	first := len(m.seg.Data()) / 8
	s, err := capnp.NewStruct(m.seg, size)
	if err != nil {
		m.unref()
		return err
	}
	m.content = s.ToPtr()
	words, pointers := uint64(s.Size().DataSize/8), uint64(size.PointerCount)
	if words+pointers == 0 {
		first = m.contentAt() // a struct of no size: its pointer leads to itself, as rpc.capnp's own encoding does it
	}
	m.setWord(m.contentAt(), structPointer(first-m.contentAt()-1, words, pointers))
	return nil
}

// setContent makes p the payload of an outbound message, with the generated code.
func (m *message) setContent(p capnp.Ptr) error {
	payload, err := m.payload()
	if err != nil {
		return err
	}
	m.content = p
	return payload.SetContent(p)
}

// payload returns the payload of an outbound message.
func (m *message) payload() (rpc.Payload, error) {
	root, err := rpc.ReadRootMessage(&m.msg)
	if err != nil {
		return rpc.Payload{}, err
	}
	if m.kind == aCall {
		call, err := root.Call()
		if err != nil {
			return rpc.Payload{}, err
		}
		return call.Params()
	}
	ret, err := root.Return()
	if err != nil {
		return rpc.Payload{}, err
	}
	return ret.Results()
}

// capAt returns the capability that p points to, or nil. It remains m's.
func (m *message) capAt(i capnp.Interface) *Cap {
	if !i.IsValid() || uint64(i.Capability()) >= uint64(len(m.caps)) {
		return nil
	}
	return m.caps[i.Capability()]
}

// walk follows a pipelined path from the content to a capability (rpc.capnp, PromisedAnswer.transform).
func (m *message) walk(path []uint16) (*Cap, error) {
	p := m.content
	for _, field := range path {
		var err error
		if p, err = p.Struct().Ptr(field); err != nil {
			return nil, err
		}
	}
	i := p.Interface()
	if !i.IsValid() && p.IsValid() {
		return nil, ErrNotCap
	}
	return m.capAt(i), nil
}

// bytes returns the size in memory that counts for limits.
func (m *message) bytes() int64 {
	if m.kind == cameIn {
		return m.size + m.capBytes
	}
	return int64(len(m.seg.Data()) + len(m.tail.b))
}

// held returns the least memory that m takes.
func (m *message) held() int64 {
	n := m.bytes()
	if m.tail.buf != nil {
		n += int64(len(m.tail.buf.b) - len(m.tail.b))
	}
	return n
}

func (m *message) ref() *message {
	m.refs.Add(1)
	return m
}

// unref drops one reference. It may call Release methods of objects, so the caller must hold no lock.
func (m *message) unref() {
	if m == nil || m.refs.Add(-1) != 0 {
		return
	}
	for i, c := range m.caps {
		c.Release()
		m.caps[i] = nil
	}
	m.caps = m.caps[:0]
	if cap(m.caps) > 64 {
		m.caps = nil
	}
	m.content = capnp.Ptr{}
	if table := m.msg.CapTable(); table.Len() > 0 {
		table.Reset()
	}
	pool := &messages
	switch m.msg.Arena {
	case nil:
	case &m.ro:
		m.ro.Release()
		pool = &arrivals
	default: // what Message.Reset does, which the next owner calls
		m.msg.Arena.Release()
		m.msg.Arena = nil
	}
	m.buf.free()
	m.tail.free()
	m.purse.empty()
	m.buf, m.seg, m.kind, m.size, m.capBytes = nil, nil, cameIn, 0, 0
	m.sent.Store(false)
	pool.Put(m)
}

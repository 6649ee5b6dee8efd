package vat

import (
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A message is the memory of one message of the protocol, with the capabilities in its payload.
//
// One that came in is read in place. One that goes out is built around its payload: Return or Call first, then
// the parameters or results, and the capability table when it is sent. It is counted: the last unref releases
// the capabilities and returns the memory to its pool.
type message struct {
	refs atomic.Int32
	msg  capnp.Message
	ro   capnp.ReadOnlySingleSegment // the arena of a message that came in as one segment
	buf  *buffer                     // what msg lies in; nil when go-capnp's arena owns it
	out  bool                        // built here
	sent atomic.Bool                 // and on its way: its envelope is taken
	size int64                       // bytes of a message that came in

	content capnp.Ptr   // Payload.content
	caps    []*Cap      // Payload.capTable, by index
	payload rpc.Payload // of a message that goes out
	call    rpc.Call    // likewise, one of these two
	ret     rpc.Return

	copying sync.Mutex // guards msg's own capability table, which copyContent borrows
}

var messages = sync.Pool{New: func() any { return new(message) }}

func newMessage() *message {
	m := messages.Get().(*message)
	m.refs.Store(1)
	return m
}

// newOutbound returns an empty message with a root, to build in. With room, it is laid out for that many bytes,
// and cannot grow beyond by more than a little; without, it grows as it must.
func newOutbound(room int) (*message, rpc.Message, error) {
	m := newMessage()
	m.out = true
	var arena capnp.Arena
	if room > inlineFrame {
		m.buf = getBuffer(frameHeader + room + roomSlack)
		arena = capnp.SingleSegment(m.buf.b[frameHeader:frameHeader])
	} else {
		arena = capnp.SingleSegment(nil)
	}
	seg, err := m.msg.Reset(arena)
	if err == nil {
		m.msg.ResetReadLimit(1 << 62) // built here: nobody's attack
		var root rpc.Message
		if root, err = rpc.NewRootMessage(seg); err == nil {
			return m, root, nil
		}
	}
	m.unref()
	return nil, rpc.Message{}, err
}

// newCall returns a Call to fill in, its parameters allocated.
func newCall(size capnp.ObjectSize) (*message, error) {
	m, root, err := newOutbound(0)
	if err != nil {
		return nil, err
	}
	if m.call, err = root.NewCall(); err == nil {
		if m.payload, err = m.call.NewParams(); err == nil {
			return m, m.newContent(size)
		}
	}
	m.unref()
	return nil, err
}

// newReturn returns a Return to fill in, without content yet.
func newReturn(room int) (*message, error) {
	m, root, err := newOutbound(room)
	if err != nil {
		return nil, err
	}
	if m.ret, err = root.NewReturn(); err == nil {
		m.ret.SetReleaseParamCaps(false)
		if m.payload, err = m.ret.NewResults(); err == nil {
			return m, nil
		}
	}
	m.unref()
	return nil, err
}

// newContent allocates the payload's struct. On failure the message is gone.
func (m *message) newContent(size capnp.ObjectSize) error {
	s, err := capnp.NewStruct(m.payload.Segment(), size)
	if err == nil {
		err = m.setContent(s.ToPtr())
	}
	if err != nil {
		m.unref()
	}
	return err
}

func (m *message) setContent(p capnp.Ptr) error {
	m.content = p
	return m.payload.SetContent(p)
}

// capAt returns the target of the capability that p points to, or nil for none. It stays m's.
func (m *message) capAt(i capnp.Interface) *Cap {
	if !i.IsValid() || uint64(i.Capability()) >= uint64(len(m.caps)) {
		return nil
	}
	return m.caps[i.Capability()]
}

// walk follows a pipelined path from the content (rpc.capnp, PromisedAnswer.transform) to a capability.
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
		return nil, errNotCap
	}
	return m.capAt(i), nil
}

// bytes returns the size in memory, which limits are counted in.
func (m *message) bytes() int64 {
	if !m.out {
		return m.size
	}
	seg, err := m.msg.Segment(0)
	if err != nil {
		return 0
	}
	return int64(len(seg.Data()))
}

func (m *message) ref() *message {
	m.refs.Add(1)
	return m
}

// unref drops one count. It may run Release methods of objects: hold no lock.
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
	m.content, m.payload, m.call, m.ret = capnp.Ptr{}, rpc.Payload{}, rpc.Call{}, rpc.Return{}
	m.msg.Reset(nil)
	m.buf.free()
	m.buf, m.out, m.size = nil, false, 0
	m.sent.Store(false)
	messages.Put(m)
}

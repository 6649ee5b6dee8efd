package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A plainCall is a Call of the usual layout. Its target is a capability of ours, or a part of an outcome that
// we have not returned yet. Its parameters are a struct. Its capabilities are null or have only a number. A
// Return of such results is read into the same type.
type plainCall struct {
	question uint32
	target   uint32 // an export; if piped, a question
	piped    bool
	yourself bool
	method   uint16
	iface    uint64
	path     plainPath // in the outcome of target
	content  int       // place of Payload.content
	table    elements  // Payload.capTable
}

// A plainPath is a short pipelined path.
type plainPath struct {
	n     int
	steps [4]uint16
}

// elements is the place of a list of structs.
type elements struct{ first, n, stride int }

// A view is a struct in a message of one segment.
type view struct {
	b        []byte
	data     int // place of its first word
	words    int
	pointers int
}

// at follows the pointer in word i of b to a struct. It reports false if the pointer is not one to a struct
// within b.
func at(b []byte, i int) (view, bool) {
	p := binary.LittleEndian.Uint64(b[8*i:])
	v := view{b: b, data: i + 1 + int(int32(uint32(p))>>2), words: int(p >> 32 & 0xffff), pointers: int(p >> 48)}
	ok := p != 0 && p&3 == 0 && v.data > 0 && v.data+v.words+v.pointers <= len(b)/8
	return v, ok
}

// listAt follows the pointer in word i of b to a list of structs that have data. It reports false if the
// pointer is not one to such a list within b.
func listAt(b []byte, i int) (e elements, ok bool) {
	p := binary.LittleEndian.Uint64(b[8*i:])
	size := int(p >> 35) // words, without the tag
	tag := i + 1 + int(int32(uint32(p))>>2)
	if p&3 != aList || p>>32&7 != ofStructs || tag <= 0 || tag+1+size > len(b)/8 {
		return e, false
	}
	t := binary.LittleEndian.Uint64(b[8*tag:])
	words := int(t >> 32 & 0xffff)
	e = elements{first: tag + 1, n: int(uint32(t) >> 2), stride: words + int(t>>48)}
	return e, t&3 == 0 && words > 0 && uint64(e.n)*uint64(e.stride) == uint64(size)
}

// word returns word i of the data, or 0 beyond its end.
func (v view) word(i int) uint64 {
	if i >= v.words {
		return 0
	}
	return binary.LittleEndian.Uint64(v.b[8*(v.data+i):])
}

// pointer returns the place of pointer i. It reports false if there is none or it is null.
func (v view) pointer(i int) (place int, ok bool) {
	if i >= v.pointers {
		return 0, false
	}
	place = v.data + v.words + i
	return place, binary.LittleEndian.Uint64(v.b[8*place:]) != 0
}

func (v view) child(i int) (view, bool) {
	place, ok := v.pointer(i)
	if !ok {
		return view{}, false
	}
	return at(v.b, place)
}

// ours is plain for the layout that this package writes, without pipelining and capabilities.
func ours(b []byte) (c plainCall, isCall, isReturn bool) {
	if len(b) < 8*callWords { // also too short: a Return with almost no results
		return c, false, false
	}
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	head := w(envelopeHead)
	switch {
	case w(0) != callEnvelope[0]:
		return c, false, false
	case w(envelopeTag) == callEnvelope[envelopeTag]:
		isCall = w(2) == callEnvelope[2] && w(6) == callEnvelope[6] && w(7) == callEnvelope[7] && w(callTarget)>>32 == 0 &&
			w(callContent+1) == 0 && head>>48 == uint64(rpc.Call_sendResultsTo_Which_caller)
		c.question, c.method, c.iface, c.target, c.content = uint32(head), uint16(head>>32), w(callInterface), uint32(w(callTarget)), callContent
	case w(envelopeTag) == returnEnvelope[envelopeTag]:
		isReturn = w(2) == returnEnvelope[2] && w(5) == returnEnvelope[5] && w(returnContent+1) == 0 && head>>32 == 1
		c.question, c.content = uint32(head), returnContent
	}
	if !isCall && !isReturn {
		return plainCall{}, false, false
	}
	if _, ok := at(b, c.content); !ok {
		return plainCall{}, false, false
	}
	return c, isCall, isReturn
}

// plain reads b if it is a plain call, or a Return of plain results.
func plain(b []byte) (c plainCall, isCall, isReturn bool) {
	if c, isCall, isReturn = ours(b); isCall || isReturn {
		return c, isCall, isReturn
	}
	msg, ok := at(b, 0)
	if !ok {
		return c, false, false
	}
	in, ok := msg.child(0)
	if !ok {
		return c, false, false
	}
	var payload view
	head := in.word(0)
	switch rpc.Message_Which(uint16(msg.word(0))) {
	case rpc.Message_Which_call:
		where := rpc.Call_sendResultsTo_Which(head >> 48)
		if where > rpc.Call_sendResultsTo_Which_yourself || !c.aim(in) {
			return c, false, false
		}
		c.method, c.iface = uint16(head>>32), in.word(1)
		c.yourself = where == rpc.Call_sendResultsTo_Which_yourself
		isCall = true
		payload, ok = in.child(1)
	case rpc.Message_Which_return:
		// Only results, and releaseParamCaps false, whose default is true.
		if head>>48 != uint64(rpc.Return_Which_results) || head&(1<<32) == 0 {
			return c, false, false
		}
		isReturn = true
		payload, ok = in.child(0)
	default:
		return c, false, false
	}
	if !ok || !c.carry(payload) {
		return c, false, false
	}
	c.question = uint32(head)
	return c, isCall, isReturn
}

// aim reads the target of a Call. It reports whether the target is plain.
func (c *plainCall) aim(call view) bool {
	to, ok := call.child(0)
	if !ok {
		return false
	}
	switch rpc.MessageTarget_Which(uint16(to.word(0) >> 32)) {
	case rpc.MessageTarget_Which_importedCap:
		c.target = uint32(to.word(0))
		return true
	case rpc.MessageTarget_Which_promisedAnswer:
		answer, ok := to.child(0)
		if !ok {
			return false
		}
		c.target, c.piped = uint32(answer.word(0)), true
		ops, some := answer.pointer(0)
		return !some || c.path.read(answer.b, ops)
	}
	return false
}

// read reads the transform of a PromisedAnswer. It reports whether it is plain.
func (p *plainPath) read(b []byte, i int) bool {
	ops, ok := listAt(b, i)
	if !ok || ops.n > len(p.steps) {
		return false
	}
	for i := range ops.n {
		op := ops.word(b, i)
		if uint16(op) != uint16(rpc.PromisedAnswer_Op_Which_getPointerField) {
			return false
		}
		p.steps[i] = uint16(op >> 16)
	}
	p.n = ops.n
	return true
}

func (p *plainPath) slice() []uint16 { return p.steps[:p.n] }

// carry finds the content and the capabilities of a Payload. It reports whether they are plain.
func (c *plainCall) carry(payload view) bool {
	place, ok := payload.pointer(0)
	if !ok {
		return false
	}
	if _, ok := at(payload.b, place); !ok {
		return false
	}
	c.content = place
	table, some := payload.pointer(1)
	if !some {
		return true
	}
	if c.table, ok = listAt(payload.b, table); !ok {
		return false
	}
	for i := range c.table.n {
		if !numberedCap(rpc.CapDescriptor_Which(uint16(c.table.word(payload.b, i)))) {
			return false
		}
	}
	return true
}

// word returns the first word of element i.
func (e elements) word(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64(b[8*(e.first+i*e.stride):])
}

// acceptPlain is acceptPayload for plain capabilities. Called with c.mu held.
func (c *Conn) acceptPlain(m *message, b []byte, table elements) error {
	if table.n == 0 {
		return nil
	}
	if err := m.expectCaps(table.n); err != nil {
		return err
	}
	for i := range table.n {
		d := table.word(b, i)
		t, err := c.acceptNumbered(rpc.CapDescriptor_Which(uint16(d)), uint32(d>>32))
		if err != nil {
			return err
		}
		m.takeCap(t)
	}
	m.purse.add(c.meter.Load(), m.bytes())
	return nil
}

// rootAt makes the struct that the pointer in word i leads to the root of the received message m, and its
// content. What came before it is not read again.
func (m *message) rootAt(b []byte, i int) (err error) {
	p := binary.LittleEndian.Uint64(b[8*i:])
	skip := i + int(int32(uint32(p))>>2) // from the word after the root pointer
	binary.LittleEndian.PutUint64(b, structPointer(skip, p>>32&0xffff, p>>48))
	m.content, err = m.msg.Root()
	return err
}

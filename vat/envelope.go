package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// Every call costs a Call, a Return and a Finish, of which all but a few numbers is always the same. These
// envelopes are written here as words at places that are known, and read so when they are laid out in the usual
// way; whatever else a peer sends is left to the generated code. The layouts are those of rpc.capnp.

// word returns the word of a pointer to a struct of so many words and pointers, skip words after the pointer.
func structPointer(skip int, dataWords, pointers uint64) uint64 {
	return uint64(uint32(int32(skip)<<2)) | dataWords<<32 | pointers<<48
}

// What an envelope of ours holds, by word.
const (
	envelopeTag   = 1 // Message: which
	envelopeHead  = 3 // Call.questionId, methodId; Return.answerId, releaseParamCaps
	callInterface = 4 // Call.interfaceId
	callTarget    = 9 // MessageTarget: importedCap, which
	callTargetPtr = 10
	callContent   = 11 // Payload.content
	callWords     = 13
	returnContent = 6
	returnWords   = 8
)

var callEnvelope = [callWords]uint64{
	0:               structPointer(0, 1, 1), // Message
	envelopeTag:     uint64(rpc.Message_Which_call),
	2:               structPointer(0, 3, 3), // Call
	6:               structPointer(2, 1, 1), // MessageTarget
	7:               structPointer(3, 0, 2), // Payload
	callContent:     0,
	callContent + 1: 0, // Payload.capTable
}

var returnEnvelope = [returnWords]uint64{
	0:                 structPointer(0, 1, 1), // Message
	envelopeTag:       uint64(rpc.Message_Which_return),
	2:                 structPointer(0, 2, 1), // Return
	envelopeHead:      1 << 32,                // releaseParamCaps: false, and its default is true
	5:                 structPointer(0, 0, 2), // Payload
	returnContent:     0,
	returnContent + 1: 0,
}

// A finishFrame is the frame of a Finish: a header and four words.
type finishFrame [frameHeader + 4*8]byte

var (
	finishTop = structPointer(0, 1, 1) // Message
	finishIn  = structPointer(0, 1, 0) // Finish
)

const (
	finishKeepsCaps  = 1 << 32 // of Finish's word: releaseResultCaps is false
	finishWorkaround = 1 << 33 // requireEarlyCancellationWorkaround is false
)

func newFinish(id uint32, releaseCaps bool) (f finishFrame) {
	binary.LittleEndian.PutUint64(f[:], 4<<32)
	binary.LittleEndian.PutUint64(f[8:], finishTop)
	binary.LittleEndian.PutUint64(f[16:], uint64(rpc.Message_Which_finish))
	binary.LittleEndian.PutUint64(f[24:], finishIn)
	word := uint64(id) | finishWorkaround
	if !releaseCaps {
		word |= finishKeepsCaps
	}
	binary.LittleEndian.PutUint64(f[32:], word)
	return f
}

// readFinish reads a Finish of the usual layout from the frame that b begins with.
func readFinish(b []byte) (id uint32, releaseCaps, ok bool) {
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if w(0) != 4<<32 || w(1) != finishTop || w(2) != uint64(rpc.Message_Which_finish) || w(3) != finishIn {
		return 0, false, false
	}
	return uint32(w(4)), w(4)&finishKeepsCaps == 0, true
}

// A view is a struct in a message of one segment.
type view struct {
	b        []byte
	data     int // its first word
	words    int
	pointers int
}

// at follows the pointer to a struct in word i of b. It reports false for anything but that within b.
func at(b []byte, i int) (view, bool) {
	p := binary.LittleEndian.Uint64(b[8*i:])
	v := view{b: b, data: i + 1 + int(int32(uint32(p))>>2), words: int(p >> 32 & 0xffff), pointers: int(p >> 48)}
	ok := p != 0 && p&3 == 0 && v.data > 0 && v.data+v.words+v.pointers <= len(b)/8
	return v, ok
}

// word returns word i of the data, which is 0 beyond its end.
func (v view) word(i int) uint64 {
	if i >= v.words {
		return 0
	}
	return binary.LittleEndian.Uint64(v.b[8*(v.data+i):])
}

// pointer returns the place of pointer i, if it has one that is not null.
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

// ours is plain for what is laid out as this package does it.
func ours(b []byte) (c plainCall, isCall, isReturn bool) {
	if len(b) < 8*callWords { // or a Return of next to nothing
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
		c = plainCall{question: uint32(head), method: uint16(head >> 32), iface: w(callInterface), target: uint32(w(callTarget)), content: callContent}
	case w(envelopeTag) == returnEnvelope[envelopeTag]:
		isReturn = w(2) == returnEnvelope[2] && w(5) == returnEnvelope[5] && w(returnContent+1) == 0 && head>>32 == 1
		c = plainCall{question: uint32(head), content: returnContent}
	}
	if !isCall && !isReturn {
		return plainCall{}, false, false
	}
	if _, ok := at(b, c.content); !ok {
		return plainCall{}, false, false
	}
	return c, isCall, isReturn
}

// A plainCall is a Call of the usual layout: to a capability of ours, with parameters in a struct and none of the
// peer's capabilities among them.
type plainCall struct {
	question, target uint32
	iface            uint64
	method           uint16
	yourself         bool
	content          int // the place of Payload.content
}

// plain reads what b holds if it is a plain call or, when isReturn, plain results.
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
		var to view
		if to, ok = in.child(0); !ok {
			return c, false, false
		}
		where := rpc.Call_sendResultsTo_Which(head >> 48)
		if which := uint16(to.word(0) >> 32); which != uint16(rpc.MessageTarget_Which_importedCap) || where > rpc.Call_sendResultsTo_Which_yourself {
			return c, false, false
		}
		c.target, c.method, c.iface = uint32(to.word(0)), uint16(head>>32), in.word(1)
		c.yourself = where == rpc.Call_sendResultsTo_Which_yourself
		isCall = true
		payload, ok = in.child(1)
	case rpc.Message_Which_return:
		// Neither releaseParamCaps, whose default is true, nor anything but results.
		if head>>48 != uint64(rpc.Return_Which_results) || head&(1<<32) == 0 {
			return c, false, false
		}
		isReturn = true
		payload, ok = in.child(0)
	default:
		return c, false, false
	}
	if !ok {
		return c, false, false
	}
	if _, caps := payload.pointer(1); caps {
		return c, false, false
	}
	place, ok := payload.pointer(0)
	if _, is := at(b, place); !ok || !is {
		return c, false, false
	}
	c.question, c.content = uint32(head), place
	return c, isCall, isReturn
}

// rootAt makes the struct that the pointer in word i points to the root of m, a message that came in, and m's
// content. What led there is not read again.
func (m *message) rootAt(b []byte, i int) (err error) {
	p := binary.LittleEndian.Uint64(b[8*i:])
	skip := i + int(int32(uint32(p))>>2) // from the word after the root pointer
	binary.LittleEndian.PutUint64(b, structPointer(skip, p>>32&0xffff, p>>48))
	m.content, err = m.msg.Root()
	return err
}

// setWord and orWord write a word of the envelope of a message that is built here.
func (m *message) setWord(i int, w uint64) { binary.LittleEndian.PutUint64(m.seg.Data()[8*i:], w) }
func (m *message) orWord(i int, w uint64) {
	b := m.seg.Data()[8*i:]
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)|w)
}

// setPromisedTarget aims a Call at a part of the outcome of a question (rpc.capnp, PromisedAnswer).
func (m *message) setPromisedTarget(question uint32, path []uint16) error {
	words := 2 // PromisedAnswer
	if len(path) > 0 {
		words += 1 + len(path) // the list's tag, and its ops
	}
	first := len(m.seg.Data()) / 8
	if err := m.allocate(words); err != nil {
		return err
	}
	m.setWord(callTarget, uint64(rpc.MessageTarget_Which_promisedAnswer)<<32)
	m.setWord(callTargetPtr, structPointer(first-callTargetPtr-1, 1, 1))
	m.setWord(first, uint64(question))
	if len(path) == 0 {
		return nil
	}
	const list, composite = 1, 7
	m.setWord(first+1, list|composite<<32|uint64(len(path))<<35)
	m.setWord(first+2, uint64(len(path))<<2|1<<32)
	for i, field := range path {
		m.setWord(first+3+i, uint64(rpc.PromisedAnswer_Op_Which_getPointerField)|uint64(field)<<16)
	}
	return nil
}

// allocate adds words to the segment of a message that is built here.
func (m *message) allocate(words int) error {
	before := max(len(m.seg.Data()), 8) // the root pointer comes by itself
	_, err := capnp.NewUInt8List(m.seg, int32(8*words))
	if err == nil && len(m.seg.Data()) != before+8*words {
		err = errInternal // not at its end
	}
	return err
}

package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// Every call costs a Call, a Return and a Finish, and all of them are the same but for a few numbers. The
// envelopes here are written as words at fixed places. Those that come in are read in the same way if they
// have the usual layout. The generated code reads everything else. The layouts are those of rpc.capnp.

// structPointer returns the word of a pointer to a struct with that many words and pointers. skip is the
// number of words between the pointer and the struct.
func structPointer(skip int, dataWords, pointers uint64) uint64 {
	return uint64(uint32(int32(skip)<<2)) | dataWords<<32 | pointers<<48
}

// Parts of a pointer's word: the kind in the lowest bits, and for a list its element size from bit 32.
const (
	aList     = 1
	ofStructs = 7
)

// The words of the envelopes that are written here.
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
	envelopeHead:      1 << 32,                // releaseParamCaps is false, and its default is true
	5:                 structPointer(0, 0, 2), // Payload
	returnContent:     0,
	returnContent + 1: 0,
}

// setWord and orWord write a word in the envelope of a message that is built here.
func (m *message) setWord(i int, w uint64) { binary.LittleEndian.PutUint64(m.seg.Data()[8*i:], w) }
func (m *message) orWord(i int, w uint64) {
	b := m.seg.Data()[8*i:]
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)|w)
}

// setPromisedTarget makes a part of the outcome of a question the target of a Call (rpc.capnp,
// MessageTarget).
func (m *message) setPromisedTarget(question uint32, path []uint16) error {
	m.setWord(callTarget, uint64(rpc.MessageTarget_Which_promisedAnswer)<<32)
	return m.setPromisedAnswer(callTargetPtr, question, path)
}

// setPromisedAnswer makes the pointer in word i lead to a new PromisedAnswer: a part of the outcome of a
// question (rpc.capnp, PromisedAnswer).
func (m *message) setPromisedAnswer(i int, question uint32, path []uint16) error {
	first := len(m.seg.Data()) / 8
	if err := m.allocate(2); err != nil {
		return err
	}
	m.setWord(i, structPointer(first-i-1, 1, 1))
	m.setWord(first, uint64(question))
	if len(path) == 0 {
		return nil
	}
	op, err := m.list(first+1, len(path), 1, 0)
	if err != nil {
		return err
	}
	for i, field := range path {
		m.setWord(op+i, uint64(rpc.PromisedAnswer_Op_Which_getPointerField)|uint64(field)<<16)
	}
	return nil
}

// list makes the pointer in word i lead to a new list of n structs with that many words and pointers. It
// returns the place of the first struct.
func (m *message) list(i, n, words, pointers int) (first int, err error) {
	tag := len(m.seg.Data()) / 8
	size := n * (words + pointers)
	if err := m.allocate(1 + size); err != nil {
		return 0, err
	}
	m.setWord(i, uint64(uint32(int32(tag-i-1)<<2))|aList|ofStructs<<32|uint64(size)<<35)
	m.setWord(tag, uint64(n)<<2|uint64(words)<<32|uint64(pointers)<<48)
	return tag + 1, nil
}

// allocate adds words to the segment of a message that is built here.
func (m *message) allocate(words int) error {
	before := max(len(m.seg.Data()), 8) // go-capnp allocates the root pointer by itself
	_, err := capnp.NewUInt8List(m.seg, int32(8*words))
	if err == nil && len(m.seg.Data()) != before+8*words {
		err = errInternal // not at its end
	}
	return err
}

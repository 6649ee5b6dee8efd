package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3"
)

// A tail is Data that follows the segment a message is built in. On the wire it is the end of the segment. It
// is written once, where it is sent from: an arena would zero the memory first and copy it to grow.
type tail struct {
	b    []byte // whole words
	buf  *buffer
	loan *loan // if not nil, b is memory of the caller, and buf is nil
	n    int   // bytes of Data
	slot int   // word of the pointer to it
	of   Field
}

// there reports whether there is a tail.
func (t *tail) there() bool { return t.buf != nil || t.loan != nil }

// maxTail is the longest Data that a pointer can describe, in bytes.
const maxTail = 1<<29 - 8

// room makes t hold n bytes and returns their memory.
func (t *tail) room(n int) []byte {
	t.buf = getBuffer((n + 7) &^ 7)
	t.b = t.buf.b[:(n+7)&^7]
	t.cut(n)
	return t.b[:n]
}

// cut makes t hold only its first n bytes, in memory of about that size.
func (t *tail) cut(n int) {
	if n < len(t.buf.b)/4 && len(t.buf.b) > inlineFrame {
		smaller := getBuffer((n + 7) &^ 7)
		copy(smaller.b, t.b[:n])
		t.buf.free()
		t.buf, t.b = smaller, smaller.b
	}
	t.n, t.b = n, t.b[:(n+7)&^7]
	clear(t.b[n:])
}

func (t *tail) free() {
	t.buf.free()
	*t = tail{}
}

// data makes a Data field of m's content n bytes long, in m's tail, and returns their memory. The content
// must be as newContent made it.
func (m *message) data(of Field, n int) ([]byte, error) {
	if err := m.addTail(of, n); err != nil {
		return nil, err
	}
	return m.tail.room(n), nil
}

// addTail records that the tail, of n bytes, is that field of m's content.
func (m *message) addTail(of Field, n int) error {
	content := m.content.Struct()
	switch {
	case n < 0 || n > maxTail:
		return exceptionf(Failed, "no message has room for %d bytes of data", n)
	case m.tail.there():
		return exceptionf(Failed, "one Data of a message is set so, and one was; set others by their own methods")
	case uint16(of) >= content.Size().PointerCount:
		return exceptionf(Failed, "field %d is none of these parameters or results", of)
	case content.HasPtr(uint16(of)):
		return exceptionf(Failed, "field %d was set before", of)
	}
	first := int(int32(uint32(m.wordAt(m.contentAt()))) >> 2)
	m.tail.slot = m.contentAt() + 1 + first + int(content.Size().DataSize/8) + int(of)
	m.tail.of = of
	return nil
}

// link writes the pointer to the tail. Nothing may be added to the segment afterwards.
func (m *message) link() {
	const list, bytes = 1, 2
	skip := len(m.seg.Data())/8 - m.tail.slot - 1
	m.setWord(m.tail.slot, list|uint64(skip)<<2|bytes<<32|uint64(m.tail.n)<<35)
}

// inline moves the tail into the segment, for a reader in this process.
func (m *message) inline() error {
	if !m.tail.there() {
		return nil
	}
	l, err := capnp.NewData(m.seg, m.tail.b[:m.tail.n])
	if err == nil {
		m.setWord(m.tail.slot, 0)
		err = m.content.Struct().SetPtr(uint16(m.tail.of), l.ToPtr())
	}
	m.tail.free()
	return err
}

func (m *message) wordAt(i int) uint64 { return binary.LittleEndian.Uint64(m.seg.Data()[8*i:]) }

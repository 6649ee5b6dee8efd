package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3"
)

// A tail is Data that follows the segment a message is built in, and on the wire is the segment's end. It is written
// once, where it leaves from: an arena would have zeroed the memory first, and copied it to grow.
type tail struct {
	b    []byte // whole words
	buf  *buffer
	loan *loan // b is the caller's memory, and there is no buf
	n    int   // of Data
	slot int   // the word of the pointer to it
	of   Field
}

// there reports whether there is a tail.
func (t *tail) there() bool { return t.buf != nil || t.loan != nil }

// maxTail is the longest Data that a pointer can lead to.
const maxTail = 1<<29 - 8

// room sets t up to hold n bytes, and returns where they go.
func (t *tail) room(n int) []byte {
	t.buf = getBuffer((n + 7) &^ 7)
	t.b = t.buf.b[:(n+7)&^7]
	t.cut(n)
	return t.b[:n]
}

// cut makes t hold its first n bytes, in memory of about that size.
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

// data makes the field of of m's content n bytes behind m's segment, and returns their memory. The content must be as
// newContent made it.
func (m *message) data(of Field, n int) ([]byte, error) {
	if err := m.addTail(of, n); err != nil {
		return nil, err
	}
	return m.tail.room(n), nil
}

// addTail notes that the field of of m's content is n bytes behind m's segment.
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

// link points to the tail: nothing is added to the segment any more.
func (m *message) link() {
	const list, bytes = 1, 2
	skip := len(m.seg.Data())/8 - m.tail.slot - 1
	m.setWord(m.tail.slot, list|uint64(skip)<<2|bytes<<32|uint64(m.tail.n)<<35)
}

// inline moves the tail into the segment, for whoever reads m here.
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

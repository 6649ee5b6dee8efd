package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3"
)

// readFrame reads one message: the number of segments less one, the size of each segment in words, padding to
// a word, and the segments. It checks the sizes before it allocates memory for them.
//
// It calls begin if the first bytes are there and the rest may not be.
func (c *Conn) readFrame(in *input, begin func()) (*message, error) {
	if err := in.fill(1); err != nil {
		return nil, err
	}
	if in.buffered() < frameHeader {
		begin()
	}
	if err := in.fill(frameHeader); err != nil {
		return nil, unexpected(err)
	}
	most := uint64(c.limits.MessageBytes)
	head := in.peek(frameHeader)
	segments := uint64(binary.LittleEndian.Uint32(head)) + 1
	if segments > uint64(c.limits.Segments) {
		return nil, protocolf("message of %d segments, and the limit is %d", segments, c.limits.Segments)
	}
	if segments == 1 {
		words := uint64(binary.LittleEndian.Uint32(head[4:]))
		if words*8 > most {
			return nil, tooLarge(words*8, most)
		}
		in.discard(frameHeader)
		return c.readBody(in, int(words*8), nil, begin)
	}
	// 4 bytes for the count and for each size, padded to a word.
	table := make([]byte, (4+4*segments+7)&^7)
	begin()
	if _, err := in.full(table); err != nil {
		return nil, unexpected(err)
	}
	sizes := make([]int, segments)
	var total uint64
	for i := range sizes {
		size := uint64(binary.LittleEndian.Uint32(table[4+4*i:])) * 8
		if total += size; total > most {
			return nil, tooLarge(total, most)
		}
		sizes[i] = int(size)
	}
	return c.readBody(in, int(total), sizes, begin)
}

// readBody reads segments of total bytes. Nil sizes are one segment.
func (c *Conn) readBody(in *input, total int, sizes []int, begin func()) (_ *message, err error) {
	if total < 8 {
		return nil, protocolf("message without a root")
	}
	if in.buffered() < total {
		begin()
	}
	size := total
	if size > chunkBytes+bufferSlack && !c.eager() {
		size = chunkBytes + bufferSlack
	}
	var p purse
	if err := p.grow(c, bufferBytes(size)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.empty()
		}
	}()
	buf := getBuffer(size)
	for have := 0; have < total; {
		want := min(total, len(buf.b))
		n, err := in.full(buf.b[have:want])
		if have += n; err != nil {
			buf.free()
			return nil, unexpected(err)
		}
		if have < total {
			// Four times what has arrived.
			size = min(total, 4*have)
			if err := p.grow(c, bufferBytes(size)); err != nil {
				buf.free()
				return nil, err
			}
			larger := getBuffer(size)
			copy(larger.b, buf.b[:have])
			buf.free()
			buf = larger
		}
	}
	m, err := assemble(buf.b[:total:total], sizes)
	if err != nil {
		buf.free()
		return nil, protocolf("malformed message: %v", err)
	}
	m.buf, m.size, m.purse = buf, int64(total), p
	m.msg.DepthLimit, m.msg.TraverseLimit = c.limits.Depth, c.limits.TraversalBytes
	m.msg.ResetReadLimit(c.limits.TraversalBytes)
	return m, nil
}

// assemble returns the received message b, with segments of the given sizes in bytes. Nil sizes are one
// segment.
func assemble(b []byte, sizes []int) (*message, error) {
	if sizes == nil {
		return newArrival(b)
	}
	segments := make([][]byte, len(sizes))
	for i, n := range sizes {
		segments[i], b = b[:n:n], b[n:]
	}
	m := newMessage()
	if _, err := m.msg.Reset(capnp.MultiSegment(segments)); err != nil {
		m.unref()
		return nil, err
	}
	return m, nil
}

// frame returns an outbound message as a frame: in one piece, whole, if it was built with room for that, and
// otherwise as up to three pieces.
func (m *message) frame() (head [frameHeader]byte, body, tail, whole []byte) {
	if tail = m.tail.b; m.tail.there() {
		m.link()
	}
	body = m.seg.Data()
	binary.LittleEndian.PutUint32(head[4:], uint32((len(body)+len(tail))/8))
	if m.buf != nil && tail == nil {
		copy(m.buf.b, head[:])
		whole = m.buf.b[:frameHeader+len(body)]
	}
	return head, body, tail, whole
}

// single returns the segment of a received message that has only one, and nil for any other.
func (m *message) single() []byte {
	if m.msg.Arena != capnp.Arena(&m.ro) {
		return nil
	}
	return m.ro.Segment(0).Data()
}

func tooLarge(n, most uint64) error {
	return protocolf("message of %d bytes, and the limit is %d", n, most)
}

package vat

import "time"

// A sealer writes the chunks of an outbox through TLS. Only the present writer uses it.
type sealer struct {
	g       *gathered
	records []byte // sealed but not written
	buf     *buffer
	plain   int // bytes of chunks in records
}

// sealBytes is how much is sealed before it is written, in bytes.
const sealBytes = 128 << 10

// write is socket.write for chunks, which it seals first. The next call writes what was sealed but not taken.
// n counts the bytes of chunks only when all their records were written.
func (s *sealer) write(o *outbox, chunks []chunk, wait bool) (n int, full bool, err error) {
	if s.plain == 0 {
		for i := 0; i < len(chunks) && s.plain < sealBytes; i++ {
			b := chunks[i].b[:min(len(chunks[i].b), sealBytes)]
			if _, err := o.nc.Write(b); err != nil {
				return 0, false, err
			}
			s.plain += len(b)
			if len(b) < len(chunks[i].b) {
				break
			}
		}
		s.records, s.buf = s.g.take()
	}
	w, full, err := o.sock.write([][]byte{s.records}, wait)
	if w > 0 {
		o.stuck = time.Time{}
	}
	if s.records = s.records[w:]; err != nil || len(s.records) > 0 {
		return 0, full, err
	}
	n = s.plain
	s.buf.free()
	s.records, s.buf, s.plain = nil, nil, 0
	return n, full, nil
}

// Package floor is what contenders are compared with: the least that two Go processes need to make calls over
// a socket. A frame has a header of 12 bytes and a payload. The header is the length of the payload, a number
// that the reply repeats, and an operation, each in 4 bytes, little-endian. There is no schema, no type, no
// object and no limit.
//
// The server handles a frame on the goroutine that reads the connection. It flushes replies when no more
// input is buffered. Any number of goroutines may call at once. They write under a mutex, and the last that
// waits for it writes for all of them. A caller reads its own reply, or one goroutine reads for all, directly
// into the callers' memory. Large payloads are written without a copy.
package floor

import (
	"crypto/tls"
	"encoding/binary"
	"net"
)

// The operations.
const (
	opEcho     = iota // payload: anything; the reply is the same
	opRead            // payload: offset, length; the reply is a part of the table
	opWrite           // payload: anything; the reply is its sum
	opPread           // as opRead, of the file
	opWhole           // payload: a path; the reply is the file's content
	opPut             // payload: the length of a path in 4 bytes, the path, the content
	opStat            // payload: a path; the reply is size and time, 8 bytes each
	opList            // payload: a path; the reply is the names, each with a NUL
	opHeldList        // no payload; as opList, of a directory that the server holds open
	opRaw             // the rest of the connection has no frames: see raw
	opDownload        // payload: a path; the reply has no payload, and then the file's bytes follow
	opFailed          // of a reply: the payload is why
)

const headerBytes = 12

// bufferBytes is the size of read buffers, and the size at which a write buffer is flushed.
const bufferBytes = 64 << 10

// copyBytes is the largest payload that is copied, so that it is written together with others.
const copyBytes = 16 << 10

func putHeader(b []byte, length int, id, op uint32) {
	binary.LittleEndian.PutUint32(b, uint32(length))
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint32(b[8:], op)
}

func header(b []byte) (length int, id, op uint32) {
	return int(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
}

// A writer collects frames until they are written.
type writer struct {
	conn   net.Conn
	copies bool        // for TLS: copy large payloads too, or each header would be a record by itself
	buf    []byte      // headers and small payloads
	begin  int         // where the bytes of buf that are not in parts begin
	parts  net.Buffers // pieces of buf, and large payloads
	rest   net.Buffers // what is left of parts while they are written
}

func newWriter(conn net.Conn) *writer {
	_, copies := conn.(*tls.Conn)
	return &writer{conn: conn, copies: copies, buf: make([]byte, 0, bufferBytes)}
}

// frame adds a frame. The caller must not change a large payload before the flush.
func (w *writer) frame(id, op uint32, payload []byte) {
	w.buf = append(w.buf, make([]byte, headerBytes)...)
	putHeader(w.buf[len(w.buf)-headerBytes:], len(payload), id, op)
	if w.copies || len(payload) <= copyBytes {
		w.buf = append(w.buf, payload...)
		return
	}
	w.parts = append(w.parts, w.buf[w.begin:], payload)
	w.begin = len(w.buf)
}

// full reports whether to flush now, even if more frames follow.
func (w *writer) full() bool { return len(w.buf) >= bufferBytes || len(w.parts) > 0 }

// flush writes all frames.
func (w *writer) flush() (err error) {
	switch {
	case len(w.parts) > 0:
		if w.begin < len(w.buf) {
			w.parts = append(w.parts, w.buf[w.begin:])
		}
		w.rest = w.parts // WriteTo consumes it
		_, err = w.rest.WriteTo(w.conn)
		clear(w.parts)
	case len(w.buf) > 0:
		_, err = w.conn.Write(w.buf)
	}
	w.buf, w.begin, w.parts = w.buf[:0], 0, w.parts[:0]
	return err
}

package vat

import (
	"math/bits"
	"sync"
)

const (
	frameHeader = 8        // bytes of a frame's header if it has one segment
	inlineFrame = 8 << 10  // up to this size a frame is copied into a buffer with its neighbours
	recordFrame = 16 << 10 // the same where each write is a record, as over TLS
	roomSlack   = 4 << 10  // room beside the data that newOutbound was asked for
	minBuffer   = 8        // log2 of the smallest pooled buffer
	maxBuffer   = 22       // log2 of the largest
	bufferSlack = 4 << 10
	chunkBytes  = 256 << 10 // a larger message is read in pieces, of which the first has this size
)

// A buffer is pooled memory. Its content is what the last owner left.
type buffer struct {
	b     []byte
	class int
}

var buffers [maxBuffer + 1]sync.Pool

// classBytes returns the size of the buffers of a class. Large ones have room for an envelope beside data
// whose size is a power of two.
func classBytes(class int) int {
	if class >= 16 {
		return 1<<class + bufferSlack
	}
	return 1 << class
}

// classOf returns the class of buffers for n bytes. There is none above maxBuffer.
func classOf(n int) int {
	class := max(minBuffer, bits.Len(uint(max(n, 1)-1)))
	if class > minBuffer && n <= classBytes(class-1) {
		class--
	}
	return class
}

// bufferBytes returns the length of a buffer for n bytes.
func bufferBytes(n int) int {
	if class := classOf(n); class <= maxBuffer {
		return classBytes(class)
	}
	return n
}

// getBuffer returns a buffer of n bytes or more.
func getBuffer(n int) *buffer {
	class := classOf(n)
	if class > maxBuffer {
		return &buffer{b: make([]byte, n), class: -1}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, classBytes(class)), class: class}
}

func (b *buffer) free() {
	if b != nil && b.class >= 0 {
		buffers[b.class].Put(b)
	}
}

package vat

import (
	"encoding/binary"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A shortFrame is the frame of a Finish or a Release: a header and four words. The second word is the kind of
// message, and the last one its content.
type shortFrame [frameHeader + 4*8]byte

var (
	shortTop = structPointer(0, 1, 1) // Message
	shortIn  = structPointer(0, 1, 0) // Finish, Release
)

const (
	finishKeepsCaps  = 1 << 32 // of Finish's word: releaseResultCaps is false
	finishWorkaround = 1 << 33 // requireEarlyCancellationWorkaround is false
)

func newShort(which rpc.Message_Which, word uint64) (f shortFrame) {
	binary.LittleEndian.PutUint64(f[:], 4<<32)
	binary.LittleEndian.PutUint64(f[8:], shortTop)
	binary.LittleEndian.PutUint64(f[16:], uint64(which))
	binary.LittleEndian.PutUint64(f[24:], shortIn)
	binary.LittleEndian.PutUint64(f[32:], word)
	return f
}

func newFinish(id uint32, releaseCaps bool) shortFrame {
	word := uint64(id) | finishWorkaround
	if !releaseCaps {
		word |= finishKeepsCaps
	}
	return newShort(rpc.Message_Which_finish, word)
}

func newRelease(id, count uint32) shortFrame {
	return newShort(rpc.Message_Which_release, uint64(id)|uint64(count)<<32)
}

// readShort reads a Finish or a Release of the usual layout from the beginning of b.
func readShort(b []byte) (which rpc.Message_Which, word uint64, ok bool) {
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if w(0) != 4<<32 || w(1) != shortTop || w(3) != shortIn {
		return 0, 0, false
	}
	which = rpc.Message_Which(w(2))
	return which, w(4), w(2) == uint64(rpc.Message_Which_finish) || w(2) == uint64(rpc.Message_Which_release)
}

// handleShort handles what readShort has read.
func (c *Conn) handleShort(which rpc.Message_Which, word uint64) error {
	if which == rpc.Message_Which_release {
		return c.handleRelease(uint32(word), word>>32)
	}
	return c.handleFinish(uint32(word), word&finishKeepsCaps == 0)
}

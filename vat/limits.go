package vat

import (
	"cmp"
	"time"
)

// Limits bounds what the peer of one connection can make this side hold. A zero field takes the default,
// which each field names. Only times can be negative. Options.Meter bounds what several connections hold
// together.
//
// Each field says what happens at its limit. "Refused" means that one call fails, with a reason that begins
// with the word limit, and everything else goes on. "Ends" means that the connection ends with an Abort.
type Limits struct {
	// MessageBytes is the largest message to read, in bytes: 8 MiB. A larger one ends the connection before
	// memory is allocated for it. Above 256 KiB memory is allocated as bytes arrive, up to four times as much
	// as has arrived. It is allocated at once if a meter bounds it (Options.Meter) or this side has no
	// bootstrap capability.
	MessageBytes int
	// Segments is the largest number of segments in a message: 512. More end the connection.
	Segments int
	// Depth is how deeply pointers may nest: 64. A deeper pointer reads as an error. Parameters and results
	// count from the first level, or from the fourth in a message of an unusual layout. The protocol's own
	// messages need four.
	Depth uint
	// TraversalBytes is how many bytes may be read from a message, so that a small message cannot pose as a
	// large one: 64 MiB. Bytes that are read again count again. Further reads are errors. Content passed on
	// to another peer is read up to twice, and 64 KiB more.
	TraversalBytes uint64
	// Answers is the largest number of calls that the peer has not finished: 16,384. One more ends the
	// connection.
	Answers int
	// Calls is the largest number of the peer's calls in progress, waiting or running: 4,096. One more is
	// refused. The peer sends a stream within its own StreamBytes, where a call counts 2 KiB at least. So
	// with fewer than 2,048 calls, or less than 4 MiB of CallBytes, streams of small calls fail.
	Calls int
	// CallBytes is the largest size of the messages of calls in progress, including their capabilities: 32
	// MiB. A call beyond it is refused.
	CallBytes int64
	// ResultBytes is the largest size of what waits for the peer's Finish: 32 MiB. It counts the reasons of
	// failures, and results that have capabilities or stay here (Call.sendResultsTo.yourself). More ends the
	// connection.
	ResultBytes int64
	// Exports is the largest number of capabilities that the peer may hold: 65,536. A call that would give it
	// one more is refused, and the capabilities in its results are released.
	Exports int
	// Imports is the largest number of the peer's capabilities that this side holds: 65,536. One more ends
	// the connection.
	Imports int
	// Questions is the largest number of calls to the peer that have not returned: 65,536. One more is
	// refused.
	Questions int
	// Workers is the largest number of handlers that run at once, without those on the reader: 64. With
	// Options.Meter, the meter bounds them instead.
	Workers int
	// ParkedBytes is the largest size of frames that wait for the peer to read them: 4 MiB. Above it, until
	// the peer has read some, this side reads no messages, starts no handlers, and makes no large results
	// (Call.ResultsFor) that would not fit.
	ParkedBytes int64
	// ParkedMax is the size of waiting frames that ends the connection: 64 MiB. They are dropped. A peer that
	// reads again within 100 ms sees the Abort.
	ParkedMax int64
	// StreamBytes is the window of `-> stream` methods, for each reference: 4 MiB. A call counts 2 KiB at
	// least. One call is always sent, however large. While it is not known where calls lead, so that they
	// wait here, the window is 64 KiB.
	StreamBytes int64
	// HandshakeTimeout is how long the peer may take to send its first message, if this side has a bootstrap
	// capability: 10 s. Negative means forever.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long the peer may send nothing while no call is in progress either way: forever.
	// After that time, or up to twice as long, the connection ends.
	IdleTimeout time.Duration
	// FrameTimeout is how long a message may take from its first byte to its last: 60 s. Negative means
	// forever.
	FrameTimeout time.Duration
	// WriteTimeout is how long a write may make no progress: 60 s, or up to a quarter less. Then the
	// connection ends, without an Abort, which could not be sent either. Negative means forever.
	WriteTimeout time.Duration
}

// maxPath and maxPromises bound pipelining: the steps of one path, and the different paths of one answer in
// use. maxCaps is the largest number of capabilities in a message.
const (
	maxPath     = 64
	maxPromises = 1024
	maxCaps     = 1 << 16
)

func (l Limits) withDefaults() Limits {
	l.MessageBytes = cmp.Or(l.MessageBytes, 8<<20)
	l.Segments = cmp.Or(l.Segments, 512)
	l.Depth = cmp.Or(l.Depth, 64)
	l.TraversalBytes = cmp.Or(l.TraversalBytes, 64<<20)
	l.Answers = cmp.Or(l.Answers, 16384)
	l.Calls = cmp.Or(l.Calls, 4096)
	l.CallBytes = cmp.Or(l.CallBytes, 32<<20)
	l.ResultBytes = cmp.Or(l.ResultBytes, 32<<20)
	l.Exports = cmp.Or(l.Exports, 65536)
	l.Imports = cmp.Or(l.Imports, 65536)
	l.Questions = cmp.Or(l.Questions, 65536)
	l.Workers = cmp.Or(l.Workers, 64)
	l.ParkedBytes = cmp.Or(l.ParkedBytes, 4<<20)
	l.ParkedMax = cmp.Or(l.ParkedMax, 64<<20)
	l.StreamBytes = cmp.Or(l.StreamBytes, 4<<20)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 10*time.Second)
	l.FrameTimeout = cmp.Or(l.FrameTimeout, time.Minute)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, time.Minute)
	return l
}

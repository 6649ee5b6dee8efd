package vat

import "time"

// Limits bounds what the peer of one connection may make this side hold. A zero field takes the default.
//
// What a limit does when it is reached is said with each one. "Refused" is the failure of one call, with a reason that
// begins with the word limit; everything else goes on. "Ends" is an Abort. Only times can be negative. What several
// connections may hold together is Options.Meter's to say.
type Limits struct {
	// MessageBytes is the largest message that is read: 8 MiB. Checked before memory is taken, and above 256 KiB
	// memory is then taken only as bytes arrive: up to four times as much as has; at once where a meter bounds it
	// (Options.Meter) or this side has no bootstrap capability to give. A larger message ends the connection.
	MessageBytes int
	// Segments is the most segments in a message: 512. More end the connection.
	Segments int
	// Depth is how deeply pointers may nest: 64. A deeper pointer reads as an error. Parameters and results are the first,
	// or the fourth where a message is not laid out as usual; the protocol's own messages need four.
	Depth uint
	// TraversalBytes is how many bytes may be read from a message, counting again what is read again, so that a
	// small message cannot pose as a large one: 64 MiB. Beyond it reads are errors. What is passed on to another peer is
	// read up to twice, and 64 KiB more.
	TraversalBytes uint64
	// Answers is the most calls of the peer's that were not finished by it: 16,384. One more ends the connection.
	Answers int
	// Calls is the most calls of the peer's in progress, waiting or running: 4,096. One more is refused. Of a stream a
	// peer keeps its own StreamBytes on the way, by calls of 2 KiB at least: with fewer than 2,048 calls, or less than
	// 4 MiB of CallBytes, streams of small calls fail.
	Calls int
	// CallBytes is the most memory in messages of calls in progress, capabilities included: 32 MiB. A call beyond it is
	// refused.
	CallBytes int64
	// ResultBytes is the most memory in what waits for the peer's Finish: results that hold capabilities or are to stay
	// here (Call.sendResultsTo.yourself), and the reasons of failures: 32 MiB. One more ends the connection.
	ResultBytes int64
	// Exports is the most capabilities that the peer may hold: 65,536. A call that would give it one more is
	// refused, and the capabilities in its results are released.
	Exports int
	// Imports is the most capabilities of the peer's that this side will hold: 65,536. One more ends the
	// connection.
	Imports int
	// Questions is the most calls to the peer that have not returned: 65,536. One more is refused.
	Questions int
	// Workers is the most handlers that run at once, those on the reader not counted: 64. With Options.Meter
	// the meter bounds them instead.
	Workers int
	// ParkedBytes is the most memory in frames that the peer has not read: 4 MiB. Above it this side reads no
	// further messages and starts no further handlers until the peer has read some, and makes no large results
	// (Call.ResultsFor) that would not fit beside the others.
	ParkedBytes int64
	// ParkedMax is where parked frames end the connection: 64 MiB. They are dropped, and a peer that reads again within
	// 100 ms sees the Abort.
	ParkedMax int64
	// StreamBytes is the window of `-> stream` methods, for each reference: 4 MiB, of which a call takes 2 KiB at least.
	// One goes, however large. While calls wait here until it is known where they lead, the window is 64 KiB.
	StreamBytes int64
	// HandshakeTimeout is how long the peer of a connection with a bootstrap capability may take over its first
	// message: 10 s. Negative: forever.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long the peer may send nothing while no call is in progress either way: forever. After that
	// time, or up to twice as much, the connection ends.
	IdleTimeout time.Duration
	// FrameTimeout is how long a message may take from its first byte to its last: 60 s. Negative: forever.
	FrameTimeout time.Duration
	// WriteTimeout is how long a write may make no progress: 60 s, or up to a quarter less. Then the connection ends
	// without an Abort, which could not leave either. Negative: forever.
	WriteTimeout time.Duration
}

// maxPath and maxPromises bound pipelining: the steps of one path, and the distinct paths of one answer in use. maxCaps
// is the most capabilities in one message.
const (
	maxPath     = 64
	maxPromises = 1024
	maxCaps     = 1 << 16
)

func (l Limits) withDefaults() Limits {
	def(&l.MessageBytes, 8<<20)
	def(&l.Segments, 512)
	def(&l.Depth, 64)
	def(&l.TraversalBytes, 64<<20)
	def(&l.Answers, 16384)
	def(&l.Calls, 4096)
	def(&l.CallBytes, 32<<20)
	def(&l.ResultBytes, 32<<20)
	def(&l.Exports, 65536)
	def(&l.Imports, 65536)
	def(&l.Questions, 65536)
	def(&l.Workers, 64)
	def(&l.ParkedBytes, 4<<20)
	def(&l.ParkedMax, 64<<20)
	def(&l.StreamBytes, 4<<20)
	def(&l.HandshakeTimeout, 10*time.Second)
	def(&l.FrameTimeout, time.Minute)
	def(&l.WriteTimeout, time.Minute)
	return l
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

package load

import "errors"

// The operations. Each has a size, which some ignore.
const (
	Echo     = "echo"     // a small call: its parameter comes back
	Chain    = "chain"    // five calls, each on the capability that the one before answered, pipelined
	ChainSeq = "chainseq" // the same, each after the answer of the one before
	Read     = "read"     // size bytes from the server's memory
	Write    = "write"    // size bytes to the server
	Stream   = "stream"   // StreamBytes to the server, one way, in chunks of size
	Pread    = "pread"    // size bytes of an open file
	Whole    = "whole"    // the file of size bytes, by path
	Version  = "version"  // the same, and a digest of what was read, where there is one
	Put      = "put"      // the file of size bytes, by path, in place and durable when the call returns
	Edit     = "edit"     // one line of a file of size bytes that has not changed for a while, likewise
	Stat     = "stat"     // of a file, by path
	DeepStat = "deepstat" // of a file in DeepDir, by path
	DeepFile = "deepfile" // Whole in DeepDir
	List     = "list"     // of a directory of size entries, by its path
	HeldList = "heldlist" // the same of a directory that is held open
	Download = "download" // StreamBytes of a file to the client, by path, one way
)

// Names in the tree that files are served from.
const (
	TableFile  = "table.txt" // the table
	BigFile    = "big.txt"   // StreamBytes
	DeepDir    = "a/b/c/d"   // some of the files again, below four names
	ListedDir  = "listed"    // ListedSize files
	PutDir     = "put"       // where Put writes
	ListedSize = 100
)

// StreamBytes is the length of one transfer of Stream and Download.
const StreamBytes = 16 << 20

// EchoBytes is the length of a small call's parameter.
const EchoBytes = 32

// ChainCalls is the length of a chain.
const ChainCalls = 5

// ErrUnsupported is the error of an operation that a contender does not have.
var ErrUnsupported = errors.New("unsupported")

// A Client is a contender's client, connected.
type Client interface {
	// Op returns the operation op. Each worker calls the returned function once, and then the function that
	// it gets.
	Op(op string, size int) (func(worker int) func() error, error)
}

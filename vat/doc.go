// Package vat speaks Cap'n Proto RPC with one peer over a connection, and does not trust that peer. It implements
// level 1 of the protocol. Of go-capnp it uses only the serialization.
//
// A vat hosts objects and holds references to objects of its peer. Both sides of a connection may do both. An
// object is any Go value, served with [Serve]. A [Table] lists its methods. A reference is a [*Cap]. [Send] and [Do]
// call a method. [Answer.Cap] returns a capability from a result that has not arrived yet, so that a chain of calls
// costs one round trip.
//
// These commands generate the code for a schema:
//
//	go get -tool capd/capnp/gen
//	go get -tool capnproto.org/go/capnp/v3/capnpc-go
//	go tool gen SCHEMADIR OUTDIR
//
// Run go mod tidy once something imports it. The generator takes what go-capnp generates, and replaces its clients
// and servers: by a Method for each method, and a Field for each capability and each Data. It needs the schema
// compiler (Debian: capnproto). Each schema needs `using Go = import "/go.capnp";` and the annotations Go.package
// and Go.import.
//
// The examples in example_test.go are complete, except for the schema, which is in internal/testproto. They show a
// host that listens, with a [meter.Meter] for all its connections; capabilities as parameters; pipelining; streams.
//
// # What may run where
//
// A handler runs when the connection's meter gives it a turn, in a goroutine of its own. Two kinds of handlers run
// on the goroutine that reads the connection: one that cannot block, registered with [Inline], and one that knows
// beforehand whether it would block, registered with [Try]. That goroutine is usually the connection's own. If the
// peer has no capability to call, it may be a caller in [Answer.Await], which reads its own answer.
//
// Send large Data with [Call.Data], [Caps.Data] and [Caps.SetData]. Over TLS, put [Gather] below crypto/tls.
//
// # Trust
//
// A connection does not trust its peer. Whatever the peer sends, it can at worst end its own connection. Messages
// are bounded before they are read, and tables before they grow. If the peer breaks a rule of rpc.capnp, the
// connection ends with Abort. [Limits] says how much a peer may hold. A panic of a handler fails only one call.
//
// # Order
//
// Calls on one reference start in the order in which they were made (rpc.capnp calls this E-order). That includes
// pipelined calls, promises that resolve, and capabilities that turn out to be hosted by the caller: embargoes
// delay later calls until the earlier ones have come back. There is one exception: a promise of the peer resolves
// to a promise of ours, which at the same time resolves to a capability of the peer.
//
// Once a call has started, the next one may start. It waits for the end of the call if the handler is registered
// with [Serial] or the method is declared `-> stream`.
//
// # How it is built
//
//	Cap        a reference: one count on a target
//	target     what a reference leads to: an object here, an import, a promise, or an error
//	request    a call on its way to a target
//	answer     its outcome, and the promises that were made of it
//	message    the memory of one message, in or out
//	envelope   the fixed part of every call, written and read as words
//	tail       data that is sent from where it was first written
//	loan       a tail in the caller's own memory, for as long as Send takes
//	Conn       the four tables of rpc.capnp: questions, answers, exports, imports
//	numbered   one of these tables: entries by number
//	input      frames on their way in, with a buffer only while it is not empty
//	outbox     frames on their way out
//	sealer     TLS between an outbox and the socket
//	metered    what several connections may hold together, and when calls run
//
// Locks, outermost first: promise.mu, Conn.mu, then one of answer.mu, request.mu and outbox.mu. The locks of two
// connections are never held together. Code of others (a handler, a Release method) never runs under a lock.
package vat

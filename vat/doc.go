// Package vat is a Cap'n Proto RPC peer: two parties, level 1, on go-capnp's serialization alone.
//
// A vat hosts objects and holds references to the objects of others. Either side of a connection may do
// both. Methods are registered in a [Table], one line each; an object is any Go value, served with [Serve];
// a reference is a [*Cap]; [Send] and [Do] call a method, and [Answer.Cap] gives a capability from a result
// that has not arrived yet, so that a chain of calls costs one round trip.
//
// # Whom it trusts
//
// Nobody. Whatever the peer sends, the worst that it can reach is the end of its own connection: messages are
// bounded before they are read, tables before they grow, and every rule of rpc.capnp that the peer breaks ends
// in Abort. [Limits] says how much a peer may hold. A handler's panic is the failure of one call.
//
// # Order
//
// Calls made on one reference start in the order in which they were made (rpc.capnp calls it E-order), also
// across pipelining, promises that resolve and capabilities that turn out to live at the caller: embargoes
// hold later calls back until the earlier ones have come around. A started call lets the next one start, unless
// its handler is registered with [Serial] or its method is declared `-> stream`.
//
// # How it is built
//
//	Cap        a reference: one count on a target
//	target     what a reference leads to: an object here, an import, a promise, or an error
//	request    a call on its way to a target
//	answer     its outcome, and the promises that were made of it
//	message    the memory of one message, in or out
//	envelope   what is the same in every call, written and read as words
//	tail       data that leaves from where it was written first
//	Conn       the four tables of rpc.capnp: questions, answers, exports, imports
//	input      frames on their way in, with a buffer only while there is something in it
//	outbox     frames on their way out
//	sealer     TLS between an outbox and the socket
//	Budget     what several connections may hold together
//	pool       a connection's workers
//
// Locks, outermost first: promise.mu, Conn.mu, then any one of answer.mu, request.mu and outbox.mu. No two
// connections' locks are ever held together, and nothing that belongs to others (a handler, a Release method)
// runs under a lock.
package vat

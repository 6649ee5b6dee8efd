package vat

import (
	"errors"
	"fmt"
	"log"
	"runtime/debug"

	"capnproto.org/go/capnp/v3"

	"capd/meter"
)

// A Table is the methods that objects answer. It is immutable, and any number of objects share one. A variable whose
// handlers serve objects of the same table is assigned in an init function, or Go sees a cycle.
type Table struct {
	methods map[methodKey]*Handler
}

type methodKey struct {
	iface  uint64
	method uint16
}

// A Handler is one method's entry in a [Table]. [Handle] makes it.
type Handler struct {
	key     methodKey
	name    string
	results capnp.ObjectSize
	inline  bool
	try     bool
	serial  bool
	stream  bool

	heavy     func(*request) bool // nil: never
	heavyFrom int64               // bytes; 0: never

	serve func(self any, r *request) error
}

// A HandleOption says how a handler runs.
type HandleOption func(*Handler)

// Inline runs the handler on the goroutine that reads the connection. Only for what cannot block: nothing else
// of that connection happens meanwhile. When earlier calls on the same object still wait to start, the call
// waits behind them and for a turn. A call made in this process runs on its caller's goroutine, beside others, unless
// the handler is [Serial] or of a stream, too.
func Inline() HandleOption { return func(h *Handler) { h.inline = true } }

// Try runs the handler on the goroutine that reads the connection, as [Inline] does, with [Call.Trying] true. A handler
// that finds that it would have to wait there returns [ErrWouldBlock] before it has had any effect, and is run again in
// a turn of its own, in its place among the calls on the object. It is for what can tell beforehand: a read of what is in memory
// already, say.
func Try() HandleOption { return func(h *Handler) { h.try = true } }

// ErrWouldBlock is what a handler registered with [Try] returns to be run again where it may wait.
var ErrWouldBlock = errors.New("vat: the handler would block")

// Serial keeps the next call on the same object from starting until the handler has returned or has called
// [Call.Go]. Methods declared `-> stream` are serial without saying so.
func Serial() HandleOption { return func(h *Handler) { h.serial = true } }

// Heavy says that calls of the method may cost much for a small question, such as looking at many entries or at a whole
// file: they run in the meter's lane for such.
func Heavy() HandleOption { return func(h *Handler) { h.heavy = func(*request) bool { return true } } }

// HeavyIf is Heavy for calls with such parameters.
func HeavyIf[P ~capnp.StructKind](is func(P) bool) HandleOption {
	return func(h *Handler) {
		h.heavy = func(r *request) bool { return is(P(r.params.content.Struct())) }
	}
}

// HeavyFrom is Heavy for calls that go through so many bytes, which the handler tells by [Call.Weigh].
func HeavyFrom(bytes int64) HandleOption { return func(h *Handler) { h.heavyFrom = bytes } }

// lane is where r runs.
func (h *Handler) lane(r *request) meter.Lane {
	if h.heavy != nil && h.heavy(r) {
		return meter.Heavy
	}
	return meter.Work
}

// NewTable returns a table of the given methods. It panics when two are the same.
func NewTable(methods ...Handler) *Table {
	t := &Table{methods: make(map[methodKey]*Handler, len(methods))}
	for _, h := range methods {
		if old, ok := t.methods[h.key]; ok {
			panic(fmt.Sprintf("vat: %s and %s are the same method", old.name, h.name))
		}
		t.methods[h.key] = &h
	}
	return t
}

// Handle registers f for the method m on objects whose value is an S; on others the method is unimplemented. The
// results that f filled in are answered when it returns nil, and Options.Encode says what is answered otherwise.
// A call whose Results were never asked for answers the empty struct.
//
// f runs when the connection's meter gives it a turn, beside other calls. It may keep neither the Call nor what it got
// from it after it returned.
func Handle[S any, P, R ~capnp.StructKind](m Method[P, R], f func(S, Call[P, R]) error, opts ...HandleOption) Handler {
	h := Handler{
		key:     methodKey{m.Interface, m.ID},
		name:    m.Name,
		results: m.Results,
		serial:  m.Stream,
		stream:  m.Stream,
		serve: func(self any, r *request) error {
			s, ok := self.(S)
			if !ok {
				return ErrNoMethod
			}
			return f(s, Call[P, R]{r})
		},
	}
	for _, o := range opts {
		o(&h)
	}
	return h
}

func (t *Table) find(iface uint64, method uint16) *Handler {
	if t == nil {
		return nil
	}
	return t.methods[methodKey{iface, method}]
}

// panicked reports a panic in an object's own code where no connection is at hand.
func (t *Table) panicked(where string, p any) {
	log.Printf("vat: panic in %s: %v\n%s", where, p, debug.Stack())
}

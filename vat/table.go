package vat

import (
	"errors"
	"fmt"
	"log"
	"runtime/debug"

	"capnproto.org/go/capnp/v3"

	"capd/meter"
)

// A Table has the methods that objects answer. It does not change, and any number of objects can share it. If
// the handlers of a Table serve objects with the same Table, assign its variable in an init function:
// otherwise Go reports an initialization cycle.
type Table struct {
	methods map[methodKey]*Handler
}

type methodKey struct {
	iface  uint64
	method uint16
}

// A Handler is the entry of one method in a [Table]. [Handle] makes it.
type Handler struct {
	key     methodKey
	name    string
	results capnp.ObjectSize
	inline  bool
	try     bool
	serial  bool
	stream  bool

	heavy     func(*request) bool // if nil, never
	heavyFrom int64               // in bytes; 0 is never

	serve func(self any, r *request) error
}

// A HandleOption says how a handler runs.
type HandleOption func(*Handler)

// Inline runs the handler on the goroutine that reads the connection. Use it only for a handler that cannot
// block, since the connection does nothing else meanwhile. If earlier calls on the same object wait to start,
// the call waits for them and for a turn. A call made in this process runs on the goroutine of its caller. It
// may then run at the same time as others, unless the handler is also [Serial] or of a stream.
func Inline() HandleOption { return func(h *Handler) { h.inline = true } }

// Try runs the handler on the goroutine that reads the connection, as [Inline] does, with [Call.Trying] true.
// If the handler would have to wait, it returns [ErrWouldBlock] before it has any effect. It then runs again
// in a turn of its own, in its place among the calls on the object. Try is for handlers that know beforehand
// whether they wait, such as a read of what may be in memory.
func Try() HandleOption { return func(h *Handler) { h.try = true } }

// ErrWouldBlock is what a handler registered with [Try] returns to run again where it may wait.
var ErrWouldBlock = errors.New("vat: the handler would block")

// Serial makes the next call on the same object wait until the handler has returned, or called [Call.Go] or
// [meter.Pass].
// Methods declared `-> stream` are always serial.
func Serial() HandleOption { return func(h *Handler) { h.serial = true } }

// Heavy marks a method whose calls may cost much for little input, such as looking at many entries or at a
// whole file. They run in the meter's lane for heavy calls.
func Heavy() HandleOption { return func(h *Handler) { h.heavy = func(*request) bool { return true } } }

// HeavyIf is Heavy for the calls with whose parameters is returns true.
func HeavyIf[P ~capnp.StructKind](is func(P) bool) HandleOption {
	return func(h *Handler) {
		h.heavy = func(r *request) bool { return is(P(r.params.content.Struct())) }
	}
}

// HeavyFrom is Heavy for calls that read or write at least that many bytes. The handler says so with
// [Call.Weigh].
func HeavyFrom(bytes int64) HandleOption { return func(h *Handler) { h.heavyFrom = bytes } }

// lane returns the lane in which r runs.
func (h *Handler) lane(r *request) meter.Lane {
	if h.heavy != nil && h.heavy(r) {
		return meter.Heavy
	}
	return meter.Work
}

// NewTable returns a table of the given methods. It panics if two are the same.
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

// Handle registers f for the method m on objects whose value is an S. On other objects the method is
// unimplemented. If f returns nil, the call answers the results that f filled in, or an empty struct if f did
// not ask for Results. Otherwise it fails, and Options.Encode says with what.
//
// f runs when the connection's meter gives it a turn, at the same time as other calls. It must not keep the
// Call, or what it got from it, after it returns.
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

// reportPanic ends and reports a panic in an object's own code when there is no connection whose Logf could report
// it. It is to be deferred.
func reportPanic(where string) {
	if p := recover(); p != nil {
		log.Printf("vat: panic in %s: %v\n%s", where, p, debug.Stack())
	}
}

package vat

import (
	"sync"
	"sync/atomic"
)

// An object is a capability that is hosted here.
//
// Calls of one connection keep their order. Calls of different connections do not wait for each other: a
// waiting call of one does not delay those of another on the same object.
type object struct {
	table *Table
	self  any
	refs  atomic.Int64

	mu    sync.Mutex
	lines map[*Conn]*line // by connection, nil for calls made here; only while a call has not let the next one start
	spare *line
}

// A line is the calls of one connection on an object. The first call runs or waits for its turn, and has not
// let the next one start.
type line struct{ waiting []*request }

// behind calls f when all calls of the connection that have come so far have started. If none waits, it
// reports false and does not call f.
func (o *object) behind(from *Conn, f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lines[from]
	if l == nil {
		return false
	}
	l.waiting = append(l.waiting, &request{barrier: f})
	return true
}

func (o *object) retain() { o.refs.Add(1) }

func (o *object) release() {
	if o.refs.Add(-1) != 0 {
		return
	}
	if r, ok := o.self.(interface{ Release() }); ok {
		defer reportPanic("Release")
		r.Release()
	}
}

// call starts r's handler, or queues it behind the calls that came before.
func (o *object) call(r *request) {
	h := o.table.find(r.iface, r.method)
	if h == nil {
		r.fail(ErrNoMethod)
		return
	}
	o.retain() // while r is in progress
	r.object, r.handler = o, h
	if r.conn == nil {
		if err := r.params.inline(); err != nil {
			r.fail(errInternal)
			return
		}
	}
	here := r.direct && (h.inline || h.try)
	if here && !h.serial && !o.busy(r.conn) && r.attempt() {
		r.ran = true
		return
	}
	switch {
	case !o.enter(r):
	case here && h.serial && r.attempt():
		r.ran = true
		o.next(r.conn)
	default:
		r.submit()
	}
}

// enter makes r the first of its line, or queues it if the line has one.
func (o *object) enter(r *request) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lines[r.conn]; l != nil {
		r.direct = false
		l.waiting = append(l.waiting, r)
		return false
	}
	if o.lines == nil {
		o.lines = make(map[*Conn]*line)
	}
	if o.spare == nil {
		o.spare = new(line)
	}
	o.lines[r.conn], o.spare = o.spare, nil
	return true
}

// busy reports whether a call of that connection waits to start, or keeps others from starting.
func (o *object) busy(from *Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines[from] != nil
}

// next lets the next call of the line start.
func (o *object) next(from *Conn) {
	o.mu.Lock()
	l := o.lines[from]
	if len(l.waiting) == 0 {
		delete(o.lines, from)
		l.waiting = nil
		o.spare = l
		o.mu.Unlock()
		return
	}
	r := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	o.mu.Unlock()
	if r.barrier != nil {
		r.barrier()
		o.next(from)
		return
	}
	r.submit()
}

package authority

import (
	"errors"
	"strings"
	"sync"
	"time"

	"capd/database"
	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Calls that are refused are counted together, so that nobody can fill the disk with them. For each root grant, at most maxDenials
// different ones have an entry of their own, with how often they happened, and all others have one entry together. What
// happens within a second is written together at first. While calls go on to be refused the time doubles, up to a minute.

const (
	firstDenials = time.Second
	lastDenials  = time.Minute
	maxDenials   = 16
)

// longestDenied is how much of a path, in bytes, is kept of a call that was refused. It may be longer than any path that
// exists.
const longestDenied = 1024

// denials are the refused calls that are not written yet. The zero value has none.
type denials struct {
	mu sync.Mutex
	of map[*meter.Meter]*denied // by root grant; nil is for locators that could not be restored
}

// denied are the refused calls of one root grant.
type denied struct {
	span  time.Duration
	timer *time.Timer
	seen  map[denial]int64
	more  int64
	last  int64 // the grant of one of those more
}

// denial is what tells refused calls apart.
type denial struct {
	id       int64
	op       string
	path, to string
	code     vfs.Code
	rule     string
}

// denied counts a call that a membrane has refused.
func (h *Host) denied(d membrane.Denial) {
	var of *meter.Meter
	if d.By != nil {
		of = d.By.Grant()
	}
	h.deny(of, denial{id: d.ID, op: d.Op.String(), path: cut(d.Path), to: cut(d.To)}, d.Err)
}

// deny counts a call that was refused with err. of is the meter of the root grant.
func (h *Host) deny(of *meter.Meter, d denial, err error) {
	if h.record == nil {
		return
	}
	d.code = vfs.CodeOf(err)
	if r, ok := errors.AsType[*membrane.Ruled](err); ok {
		d.rule = r.Source
	}
	s := &h.denials
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[of]
	if b == nil {
		b = &denied{span: firstDenials, seen: map[denial]int64{}}
		if s.of == nil {
			s.of = map[*meter.Meter]*denied{}
		}
		s.of[of] = b
		b.timer = time.AfterFunc(b.span, func() { h.writeDenials(of, b) })
	}
	b.count(d)
}

// unrestored counts a locator that was not restored because of err, if that is a refusal. id is of its grant; 0 for none.
func (h *Host) unrestored(id int64, err error) {
	if membrane.IsDenial(err) {
		h.deny(nil, denial{id: id, op: "restore"}, err)
	}
}

func (b *denied) count(d denial) {
	if _, ok := b.seen[d]; ok || len(b.seen) < maxDenials {
		b.seen[d]++
		return
	}
	b.more++
	b.last = d.id
}

// cut returns a path as it is kept.
func cut(path string) string {
	if len(path) > longestDenied {
		path = path[:longestDenied]
	}
	return strings.Clone(path)
}

// writeDenials writes what was counted in b, and goes on counting unless there was nothing.
func (h *Host) writeDenials(of *meter.Meter, b *denied) {
	s := &h.denials
	s.mu.Lock()
	seen, more, last := b.seen, b.more, b.last
	switch {
	case len(seen) == 0:
		delete(s.of, of)
	default:
		b.seen, b.more = map[denial]int64{}, 0
		b.span = min(2*b.span, lastDenials)
		b.timer.Reset(b.span)
	}
	s.mu.Unlock()
	h.noteDenials(seen, more, last)
}

// noteDenials adds what was counted to the record. Nobody waits for it.
func (h *Host) noteDenials(seen map[denial]int64, more, last int64) {
	if len(seen) == 0 {
		return
	}
	h.db.Later(func(tx *database.Tx) error {
		for d, n := range seen {
			e := record.Entry{
				Kind: record.Denied, Op: d.op, Path: record.Path(d.path), To: record.Path(d.to), Code: d.code, Rule: d.rule, Times: n,
			}
			if err := h.noteDenied(tx, d.id, e); err != nil {
				return err
			}
		}
		if more == 0 {
			return nil
		}
		return h.noteDenied(tx, last, record.Entry{Kind: record.Denied, Times: more})
	})
}

// noteDenied adds e, about the grant with that id, if it is not 0.
func (h *Host) noteDenied(tx *database.Tx, id int64, e record.Entry) (err error) {
	if e.Grants, err = holders(tx, id); err != nil {
		return err
	}
	return h.record.Append(tx, e)
}

// closeDenials writes what was counted, at the end of a host.
func (h *Host) closeDenials() {
	s := &h.denials
	s.mu.Lock()
	all := s.of
	s.of = nil
	s.mu.Unlock()
	for _, b := range all {
		if b.timer.Stop() {
			h.noteDenials(b.seen, b.more, b.last)
		}
	}
}

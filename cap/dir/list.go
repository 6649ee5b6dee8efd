package dir

import (
	"context"
	"iter"
	"sync/atomic"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// maxPageBytes bounds the names of one page, in bytes. A page ends when it exceeds it.
const maxPageBytes = 1 << 20

// listing is a listing that stopped at the end of a page. It lets the next page
// continue without listing the directory from its start.
type listing struct {
	after  string     // last name answered
	held   *vfs.Entry // read already; it begins the next page
	next   func() (vfs.Entry, error, bool)
	stop   func()
	cancel context.CancelFunc
	ctx    *pageContext
	kept   *meter.Kept
}

func (l *listing) end() {
	l.stop()
	l.cancel()
}

func (s *server) list(c vat.Call[schema.Dir_list_Params, schema.Dir_list_Results]) error {
	raw, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	after := string(raw)
	if c.Params().WithStat() {
		if err := membrane.May(s.dir, membrane.To(membrane.OpStat)); err != nil {
			return vfs.At("", err)
		}
	}
	limit := wire.PageSize(c.Params().Limit())
	l := s.takeListing(after)
	if l == nil {
		l = s.newListing(after)
	}
	// The listing has a context of its own, since it may outlive this call.
	stop := context.AfterFunc(c.Context(), l.cancel)
	l.ctx.turn.Store(meter.TurnOf(c.Context()))
	page, more, err := l.page(after, limit)
	l.ctx.turn.Store(nil)
	ended := !stop()
	if err != nil || !more || ended {
		l.end()
	} else {
		s.keepListing(l)
	}
	if err != nil {
		return vfs.At("", err)
	}
	r := c.Results()
	r.SetMore(more)
	return s.setEntries(c.Context(), r.NewEntries, page, c.Params().WithStat())
}

// newListing begins a listing after a name, or at the start for "".
func (s *server) newListing(after string) *listing {
	base, cancel := context.WithCancel(context.Background())
	ctx := &pageContext{Context: base}
	from := ""
	if after != "" {
		from = after + "\x00" // the smallest name that may follow
	}
	next, stop := iter.Pull2(vfs.ListFrom(ctx, s.dir, from))
	return &listing{next: next, stop: stop, cancel: cancel, ctx: ctx}
}

// pageContext is the context of a listing. It has the turn of the call that asks for a
// page.
type pageContext struct {
	context.Context
	turn atomic.Pointer[meter.Turn] // nil between calls
}

func (c *pageContext) Value(key any) any {
	if t := c.turn.Load(); t != nil {
		return t.Context(c.Context).Value(key)
	}
	return c.Context.Value(key)
}

// takeListing takes the kept listing out if it continues after that name. Otherwise it
// returns nil.
func (s *server) takeListing(after string) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.next
	if l == nil || after == "" || l.after != after || !l.kept.Forget() {
		return nil
	}
	s.next = nil
	return l
}

func (s *server) keepListing(l *listing) {
	s.dropListing()
	s.mu.Lock()
	if s.next != nil { // another call kept its listing meanwhile
		s.mu.Unlock()
		l.end()
		return
	}
	s.next = l
	kept, dropOldest := membrane.MeterOf(s.dir).Keep(meter.Listings, func() {
		s.mu.Lock()
		if s.next == l {
			s.next = nil
		}
		s.mu.Unlock()
		l.end()
	})
	if l.kept = kept; kept == nil {
		s.next = nil
	}
	s.mu.Unlock() // from here on another call may take the listing, and keep it again
	dropOldest()  // it locks another directory
	if kept == nil {
		l.end()
	}
}

func (s *server) dropListing() {
	s.mu.Lock()
	l := s.next
	s.next = nil
	s.mu.Unlock()
	if l != nil && l.kept.Forget() {
		l.end()
	}
}

// page returns the next entries after a name, and whether there are more.
func (l *listing) page(after string, limit int) (page []vfs.Entry, more bool, err error) {
	bytes := 0
	add := func(e vfs.Entry) bool {
		if after != "" && e.Name <= after {
			return true
		}
		if len(page) == limit || bytes > maxPageBytes {
			l.held = &e
			return false
		}
		page = append(page, e)
		bytes += len(e.Name) + 16
		l.after = e.Name
		return true
	}
	if e := l.held; e != nil {
		l.held = nil
		add(*e)
	}
	for {
		e, err, ok := l.next()
		switch {
		case !ok:
			return page, false, nil
		case err != nil:
			return nil, false, err
		case !add(e):
			return page, true, nil
		}
	}
}

// setEntries fills in a page. An entry that has disappeared meanwhile has no stat.
func (s *server) setEntries(ctx context.Context, alloc func(int32) (schema.Stat_List, error), page []vfs.Entry, withStat bool) error {
	list, err := alloc(int32(len(page)))
	if err != nil {
		return err
	}
	ctx = vfs.Recalling(ctx)
	for i, e := range page {
		st := list.At(i)
		if err := wire.SetName(st, e.Name); err != nil {
			return err
		}
		wire.SetKind(st, e.Kind)
		if !withStat || e.Kind == vfs.Other {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := s.dir.Lookup(ctx, e.Name)
		if err != nil {
			switch vfs.CodeOf(err) {
			case vfs.Revoked, vfs.Expired, vfs.Denied, vfs.Limit, vfs.Stale, vfs.Busy:
				return vfs.At("", err)
			}
			continue
		}
		info, err := n.Stat(ctx)
		n.Close()
		if err == nil {
			wire.SetInfo(st, info)
		}
	}
	return nil
}

package membrane

import (
	"context"
	"math"
	"sync/atomic"

	"capd/meter"
	"capd/vfs"
)

// meters are the meters that count what is done through a view: the meter of its gate,
// if any, and those of the guards.
type meters struct {
	gate   *meter.Meter
	guards []*meter.Meter
}

func (v *view) meters() meters { return meters{v.base.meter, v.guards.meters} }

// all yields each meter.
func (p meters) all(yield func(*meter.Meter) bool) {
	if p.gate != nil && !yield(p.gate) {
		return
	}
	for _, m := range p.guards {
		if !yield(m) {
			return
		}
	}
}

// take takes n of k from every meter, or from none if one refuses. over raises the
// limits for this call.
func (p meters) take(k meter.Kind, n, over int64) error {
	if p.gate != nil {
		if err := p.gate.TakeOver(k, n, over); err != nil {
			return refused(err)
		}
	}
	for i, m := range p.guards {
		if err := m.TakeOver(k, n, over); err != nil {
			meters{p.gate, p.guards[:i]}.give(k, n)
			return refused(err)
		}
	}
	return nil
}

func (p meters) give(k meter.Kind, n int64) {
	for m := range p.all {
		m.Give(k, n)
	}
}

// Take takes n of k from m, which may be nil. It answers limit, or busy for staged
// bytes.
func Take(m *meter.Meter, k meter.Kind, n int64) error { return meters{gate: m}.take(k, n, 0) }

// Give returns what Take took.
func Give(m *meter.Meter, k meter.Kind, n int64) { meters{gate: m}.give(k, n) }

// refused returns a meter's error with its code.
func refused(err error) error {
	return vfs.Errorf(vfs.CodeOf(err), "%v", err)
}

// pathShare is how many bytes of path an open node has free of charge. It counts as one
// more node for each further pathShare bytes.
const pathShare = 256

// openCost is how much a node at path counts while it is open. Several copies of the
// path are kept with it.
func openCost(path string) int64 {
	return 1 + int64(max(len(path)-1, 0)/pathShare)
}

// unlimited raises every limit out of reach.
const unlimited = math.MaxInt64 / 2

// open counts one more view or gate at path. close undoes it.
func (p meters) open(path string) error { return p.take(meter.Nodes, openCost(path), 0) }

func (p meters) close(path string) { p.give(meter.Nodes, openCost(path)) }

// stream counts one more open content or whole-file write. end undoes it.
func (p meters) stream(ctx context.Context) (end func(), err error) {
	over := int64(0)
	if restores(ctx) {
		over = unlimited
	}
	if err := p.take(meter.Streams, 1, over); err != nil {
		return nil, err
	}
	return func() { p.give(meter.Streams, 1) }, nil
}

// stored is what the meter of a gate has counted of one operation. A nil stored counts nothing.
type stored struct{ bytes, nodes atomic.Int64 }

func (s *stored) add(e vfs.Effect) {
	if s != nil {
		s.bytes.Add(e.Bytes)
		s.nodes.Add(e.Nodes)
	}
}

// dropped returns a function that adds what it is told, and tells outer, which may be nil.
func (s *stored) dropped(outer func(vfs.Effect)) func(vfs.Effect) {
	if s == nil {
		return outer
	}
	return func(e vfs.Effect) {
		s.add(e)
		if outer != nil {
			outer(e)
		}
	}
}

// commits returns a Committer that reserves in m what a change may grow by, and then
// counts by how much it did. account, if not nil, returns what the change is worth to
// m, given what it is to the store. also counts the same; it may be nil.
func commits(m *meter.Meter, account func(vfs.Effect) vfs.Effect, also *stored) vfs.Committer {
	if account == nil {
		account = func(e vfs.Effect) vfs.Effect { return e }
	}
	return func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		reserved := meter.Effect(account(e))
		if err := m.Reserve(reserved); err != nil {
			return vfs.Effect{}, refused(err)
		}
		got, err := change()
		here := got
		if err == nil {
			here = account(got)
		}
		m.Settle(reserved, meter.Effect(here))
		also.add(here)
		return got, err
	}
}

// counts is commits for a change that is taken back: it may exceed what m may grow by.
func counts(m *meter.Meter, account func(vfs.Effect) vfs.Effect, also *stored) vfs.Committer {
	return func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		got, err := change()
		here := got
		if err == nil && account != nil {
			here = account(got)
		}
		m.Settle(meter.Effect{}, meter.Effect(here))
		also.add(here)
		return got, err
	}
}

// dropped returns a function that counts by how much the store shrank, in outer too. outer
// counts for the change that this one is a part of; it may be nil.
func (p meters) dropped(outer func(vfs.Effect)) func(vfs.Effect) {
	return func(e vfs.Effect) {
		for m := range p.all {
			m.Settle(meter.Effect{}, meter.Effect(e))
		}
		if outer != nil {
			outer(e)
		}
	}
}

// stage counts n bytes as staged, in outer too. outer counts for the change that this one
// is a part of; it may be nil. The caller calls unstage once.
func (p meters) stage(n int64, outer func(int64) (func(), error)) (unstage func(), err error) {
	if err := p.take(meter.StagedBytes, n, 0); err != nil {
		return nil, err
	}
	give := func() { p.give(meter.StagedBytes, n) }
	if outer == nil {
		return give, nil
	}
	ungive, err := outer(n)
	if err != nil {
		give()
		return nil, err
	}
	return func() { ungive(); give() }, nil
}

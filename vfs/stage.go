package vfs

import (
	"context"

	"capd/meter"
)

type stagerKey struct{}

// stager is who pays for a change, and for the change that this is a part of.
type stager struct {
	payers payers
	outer  *stager
}

// onStage returns a context in which [Stage] counts with p too.
func onStage(ctx context.Context, p payers) context.Context {
	if p.gate == nil && len(p.guards) == 0 {
		return ctx
	}
	outer, _ := ctx.Value(stagerKey{}).(*stager)
	return context.WithValue(ctx, stagerKey{}, &stager{p, outer})
}

// Stage counts n bytes that a store is about to write beside what it changes, for the
// change that ctx is of, as the content of a whole-file write counts while it is under
// way. It answers busy when that is more than may be staged at once. unstage, which is
// called once, ends it.
func Stage(ctx context.Context, n int64) (unstage func(), err error) {
	s, _ := ctx.Value(stagerKey{}).(*stager)
	return s.stage(n)
}

func (s *stager) stage(n int64) (unstage func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	if err := s.payers.take(meter.StagedBytes, n, 0); err != nil {
		return nil, err
	}
	outer, err := s.outer.stage(n)
	if err != nil {
		s.payers.give(meter.StagedBytes, n)
		return nil, err
	}
	return func() { outer(); s.payers.give(meter.StagedBytes, n) }, nil
}

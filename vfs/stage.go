package vfs

import (
	"context"

	"capd/meter"
)

type stagerKey struct{}

// stager is the meters of a change, and those of the change that it is a part of.
type stager struct {
	payers payers
	outer  *stager
}

// onStage returns a context in which [Stage] counts in p too.
func onStage(ctx context.Context, p payers) context.Context {
	if p.gate == nil && len(p.guards) == 0 {
		return ctx
	}
	outer, _ := ctx.Value(stagerKey{}).(*stager)
	return context.WithValue(ctx, stagerKey{}, &stager{p, outer})
}

// Stage counts n bytes as staged for the change that ctx belongs to. A store calls it
// before it writes a copy beside what it changes. It answers busy when that would be
// more than may be staged at once. The caller calls unstage once.
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

package vat_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func TestSettle(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(30); return nil })
	defer a.Release()
	d := a.Cap(tp.Chain_slowNext_Results_chain)
	defer d.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, d.Settle(ctx), context.DeadlineExceeded)
	assert.NoError(t, d.Settle(t.Context()))
	_, _, err := a.Await(ctx)
	assert.NoError(t, err, "it is there by then")
	assert.NoError(t, (*vat.Cap)(nil).Settle(t.Context()))
}

// Everything happens at once, from many goroutines, and calls are given up at random.
func TestStress(t *testing.T) {
	far := connect(t, vat.Limits{})
	p := connect(t, vat.Limits{})
	root, distant := p.root(t), far.root(t)
	e := p.echoCap(t)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 1))
			for range 150 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(5))*time.Millisecond)
				c := root.AddRef()
				if rnd.IntN(3) == 0 { // by way of the server, and for two of them by way of this process
					a := vat.Send(ctx, e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
						return q.SetCap(caps.Put(distant.AddRef()))
					})
					c.Release()
					c = a.Cap(0)
					a.Release()
				}
				for range rnd.IntN(5) {
					var next *vat.Cap
					if rnd.IntN(2) == 0 {
						a := vat.Send(ctx, c, tp.Chain_next, nil)
						next = a.Cap(0)
						a.Release()
					} else {
						a := vat.Send(ctx, c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error {
							q.SetMs(uint32(rnd.IntN(3)))
							return nil
						})
						next = a.Cap(0)
						if rnd.IntN(2) == 0 {
							_, _, _ = a.Await(ctx)
						}
						a.Release()
					}
					c.Release()
					c = next
				}
				_, _ = depthOf(ctx, c)
				c.Release()
				cancel()
				for len(p.cancelled) > 50 {
					<-p.cancelled
				}
				for len(far.cancelled) > 50 {
					<-far.cancelled
				}
			}
		})
	}
	wg.Wait()
	_, err := depthOf(t.Context(), root)
	require.NoError(t, err)
	_, err = depthOf(t.Context(), distant)
	require.NoError(t, err)
	e.Release()
	soon(t, func() bool { return p.live.Load() == 1 && far.live.Load() == 1 }, "objects leaked")
	for _, c := range []*vat.Conn{p.client, p.server, far.client, far.server} {
		soon(t, func() bool {
			s := c.Stats()
			return s.Questions == 0 && s.Answers == 0 && s.Embargoes == 0 && s.Exports+s.Imports == 2
		}, "tables leaked")
		assert.Zero(t, c.Stats().Calls)
		assert.Zero(t, c.Stats().CallBytes)
		assert.Zero(t, c.Stats().ResultBytes)
		if t.Failed() {
			t.Logf("%+v", c.Stats())
		}
	}
	root.Release()
	distant.Release()
}

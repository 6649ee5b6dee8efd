package vat_test

import (
	"testing"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A promise of the caller comes back before it has resolved. Earlier calls on the result went through the peer. A
// Disembargo follows them, although nobody knows yet where the promise leads.
func TestOwnPromiseComesBack(t *testing.T) {
	far, p := connect(t, vat.Limits{}), connect(t, vat.Limits{})
	distant := far.root(t)
	defer distant.Release()
	e := p.echoCap(t)
	defer e.Release()

	slow := vat.Send(t.Context(), distant, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(100); return nil })
	defer slow.Release()
	promised := slow.Cap(tp.Chain_slowNext_Results_chain)
	defer promised.Release()

	back := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(promised.AddRef()))
	})
	defer back.Release()
	r := back.Cap(0)
	defer r.Release()
	early := vat.Send(t.Context(), r, tp.Chain_depth, nil) // goes around
	defer early.Release()
	_, _, err := back.Await(t.Context())
	vat.OK(t, err)

	depth, err := depthOf(t.Context(), r)
	vat.OK(t, err)
	if depth != 1 {
		t.Errorf("depth = %d, want 1", depth)
	}
	res, _, err := early.Await(t.Context())
	vat.OK(t, err)
	if got := res.Depth(); got != 1 {
		t.Errorf("res.Depth() = %d, want 1", got)
	}
	if err := p.client.Err(); err != nil {
		t.Errorf("p.client.Err(): %v", err)
	}
	if err := p.server.Err(); err != nil {
		t.Errorf("p.server.Err(): %v", err)
	}
}

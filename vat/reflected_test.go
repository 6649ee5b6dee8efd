package vat_test

import (
	"testing"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// When the embargo is lifted, the calls that went through the peer have arrived, but they have not all started: a serial
// handler takes its time. Calls that are made directly afterwards must not overtake them.
func TestReflectedCallsStartFirst(t *testing.T) {
	p := connect(t, vat.Limits{})
	mine := &counterObj{tracked: tracked{p.world}}
	own := p.serve(mine)
	defer own.Release()
	e := p.echoCap(t)
	defer e.Release()
	a := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(own.AddRef())) })
	defer a.Release()
	c := a.Cap(tp.Echo_cap_Results_cap)
	defer c.Release()
	var calls []*vat.Answer[tp.Counter_slow_Results]
	slow := func(n int) {
		for range n {
			calls = append(calls, vat.Send(t.Context(), c, tp.Counter_slow, func(q tp.Counter_slow_Params, _ *vat.Caps) error {
				q.SetTag(uint32(len(calls)))
				return nil
			}))
		}
	}
	slow(1000)
	vat.OK(t, c.Settle(t.Context()))
	slow(1000)
	for _, a := range calls {
		_, _, err := a.Await(t.Context())
		vat.OK(t, err)
		a.Release()
	}
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for i, tag := range mine.tags {
		if int(tag) != i {
			t.Fatalf("call %d started in the place of %d", tag, i)
		}
	}
}

package vat_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// When the last connection is gone, nobody holds anything, however calls and connections ended.
func TestNothingStaysTaken(t *testing.T) {
	h := meter.NewHost(meter.Limits{meter.ReplyBytes: 6 << 20, meter.MessageBytes: 6 << 20})
	limits := meter.Limits{meter.ReplyBytes: 4 << 20, meter.MessageBytes: 4 << 20, meter.Waits: 24}
	grants := []*meter.Meter{h.Grant("a", limits), h.Grant("b", limits)}
	ms := append(grants, grants[0].Part("s"), grants[0].Part("t"))
	var guests sync.WaitGroup
	for i := range 16 {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		guests.Go(func() {
			for range 4 {
				guest(t, h, ms[r.IntN(len(ms))], ms[r.IntN(len(ms))], r)
			}
		})
	}
	guests.Wait()
	soon(t, func() bool {
		for k := range meter.Kinds {
			if h.All().Used(k) != 0 {
				return false
			}
		}
		return true
	}, "all is given back")
	for _, m := range append(ms, h.All(), h.Strangers()) {
		for _, use := range m.Uses() {
			if use.Used != 0 {
				t.Errorf("%s: %d %v are left", m.Name(), use.Used, use.Kind)
			}
		}
		for _, turns := range m.Turns() {
			if turns.Waiting != 0 {
				t.Errorf("%s: %d wait in %v", m.Name(), turns.Waiting, turns.Lane)
			}
		}
	}
}

// guest makes some calls on a connection that counts in m, and from some time on in later. It cancels some of them and
// leaves.
func guest(t *testing.T, h *meter.Host, m, later *meter.Meter, r *rand.Rand) {
	a, b := sockets(t)
	server := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(waiterTable, &waiter{}), Meter: h.Strangers(), Limits: vat.Limits{ParkedBytes: 2 << 20}})
	client := vat.NewConn(b, vat.Options{})
	c := client.Bootstrap(t.Context())
	server.SetMeter(m)
	var calls sync.WaitGroup
	for i := range 4 + r.IntN(12) {
		big, data, patience := uint32(r.IntN(1<<20)), make([]byte, r.IntN(1<<20)), time.Duration(r.IntN(5000))*time.Microsecond
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			switch i % 3 {
			case 0:
				_ = vat.Do(ctx, c, tp.Echo_data, func(p tp.Echo_data_Params, _ *vat.Caps) error { p.SetSize(big); return nil }, nil)
			case 1:
				_ = vat.Do(ctx, c, bothMethod, nil, nil)
			case 2:
				_ = vat.Do(ctx, c, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error { return p.SetText(string(data)) }, nil)
			}
		})
	}
	time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	server.SetMeter(later)
	if r.IntN(2) == 0 {
		calls.Wait()
	}
	if r.IntN(2) == 0 {
		b.Close()
	} else {
		server.Close()
	}
	calls.Wait()
	c.Release()
	client.Close()
	<-server.Done()
}

package vat_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// Many large results at once do not pile up, and do not end a connection whose peer
// reads.
func TestLargeResultsWaitForRoom(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	const size = 3 << 20
	var peak atomic.Int64
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			peak.Store(max(peak.Load(), p.server.Stats().ParkedBytes))
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			err := vat.Do(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(size); return nil },
				func(r tp.Echo_data_Results, _ *vat.Caps) error {
					b, err := r.Data()
					if len(b) != size {
						t.Errorf("len(b) = %d, want %d", len(b), size)
					}
					return err
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	close(done)
	watch.Wait()
	if got := peak.Load(); got > int64(2*size) {
		t.Errorf("peak.Load() = %d, want at most %d", got, int64(2*size))
	}
}

// both is results of data and a capability.
type both capnp.Struct

var bothMethod = vat.Method[vat.Empty, both]{Interface: 0xd0d0, Name: "both", Results: capnp.ObjectSize{PointerCount: 2}}

type bothObj struct {
	cap  *vat.Cap
	size int
	wait time.Duration
}

func (o *bothObj) Release() { o.cap.Release() }

var bothTable = vat.NewTable(vat.Handle(bothMethod, func(o *bothObj, c vat.Call[vat.Empty, both]) error {
	b, err := c.Data(0, o.size)
	if err != nil {
		return err
	}
	clear(b)
	time.Sleep(o.wait)
	r := c.Results()
	return capnp.Struct(r).SetPtr(1, c.Caps().Put(o.cap.AddRef()).ToPtr())
}))

// Results with capabilities are kept until Finish, and there is a limit. It also applies
// while nothing else is sent.
func TestKeptResults(t *testing.T) {
	for _, size := range []int{16, 64 << 10, 1 << 20} {
		a, b := sockets(t)
		client, c := reachOver(t, a, b, vat.Serve(bothTable, &bothObj{cap: vat.Serve(vat.NewTable(), new(int)), size: size}))
		vat.OK(t, c.Settle(t.Context()))
		var answers []*vat.Answer[both]
		for range min(1500, 64<<20/max(size, 1)) {
			answers = append(answers, vat.Send(t.Context(), c, bothMethod, nil))
		}
		for _, a := range answers {
			_, _, err := a.Await(t.Context())
			if err != nil {
				t.Errorf("a.Await: %v", err)
			}
			a.Release()
		}
		vat.OK(t, client.Err())
	}
}

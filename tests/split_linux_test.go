package tests

import (
	"math/rand/v2"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A session whose bytes arrive in pieces that end anywhere is as good as one that arrives whole.
func TestSplitAnywhere(t *testing.T) {
	t.Parallel()
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	h.layHostile()
	var all []byte
	add := func(c call) { all = append(all, message(t, c.fill)...) }
	all = append(all, message(t, func(m rpc.Message) error {
		b, err := m.NewBootstrap()
		b.SetQuestionId(0)
		return err
	})...)
	add(restore(1, result(0), secretOf(t, h.locator)))
	add(openFile(2, result(1, 0, 0), "project/hostile/f"))
	add(read(3, result(2, 0), 0, 4096))
	mid := len(all)
	add(putBytes(4, 0, "x", 90_000)) // to the session: unimplemented, and its body has to be read
	big := len(all)
	add(read(5, result(2, 0), 1, 100))
	for q := range uint32(6) {
		all = append(all, message(t, func(m rpc.Message) error {
			f, err := m.NewFinish()
			f.SetQuestionId(q)
			return err
		})...)
	}
	run := func(cuts ...int) {
		p := newPeer(t, dialGuests(t, h.locator))
		at := 0
		for _, k := range append(cuts, len(all)) {
			p.nc.Write(all[at:k])
			at = k
			if k < len(all) {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		}
		got := 0
		for got < 6 {
			m, ok := p.recv()
			if !ok {
				t.Fatalf("cuts %v: ended after %d returns", cuts, got)
			}
			if m.Which() == rpc.Message_Which_abort {
				e, _ := m.Abort()
				why, _ := e.Reason()
				t.Fatalf("cuts %v: abort %q", cuts, why)
			}
			if m.Which() == rpc.Message_Which_return {
				got++
			}
		}
		p.nc.Close()
	}
	for k := 1; k < mid+200; k++ {
		run(k)
	}
	for k := big - 20; k < len(all); k++ {
		run(k)
	}
	for range 300 {
		a := 1 + rand.IntN(len(all)-3)
		b := a + 1 + rand.IntN(len(all)-a-2)
		run(a, b)
	}
	every := make([]int, 0, mid)
	for k := 1; k < mid; k++ {
		every = append(every, k)
	}
	run(every...)
}

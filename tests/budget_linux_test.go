package tests

import (
	"net"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
	"capd/locator"
)

// Strangers whose calls wait, each in a message just too small to count as large, hold next to nothing: all together
// may have little in progress.
func TestStrangersHoard(t *testing.T) {
	t.Parallel()
	h := serve(t)
	before := usageOf(t, h.pid())
	const conns, calls = 24, 500
	for range conns {
		p := newPeer(t, dialGuests(t, h.locator))
		p.bootstrap(0)
		for q := range uint32(calls) {
			c := of(q+1, result(0), schema.Session_share, func(w schema.Session_share_Params) error {
				r, err := w.NewRef()
				if err != nil {
					return err
				}
				if err := r.SetDir(pointer(w, 0)); err != nil {
					return err
				}
				_, err = capnp.NewData(capnp.Struct(w).Segment(), make([]byte, 65_000)) // a padding that nothing points to
				return err
			}, promise(q))
			p.call(c)
		}
		p.flush()
	}
	time.Sleep(2 * time.Second)
	if grown := (usageOf(t, h.pid()).rssKB - before.rssKB) >> 10; grown > 150 && !raceBuilt {
		t.Errorf("%d strangers made the host grow by %d MiB", conns, grown)
	}
}

// The holder of a share fills the grant's call bytes with calls that wait for a promise of his:
// the guest is held up for as long as such a promise may take, and not cut off.
func TestShareDoesNotStarveItsSharer(t *testing.T) {
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	l, err := locator.Parse(h.locator)
	ok(t, err)
	p := newPeer(t, dialGuests(t, h.locator))
	p.bootstrap(0)
	p.call(restore(1, result(0), l.Secret[:]))
	caps, _ := p.works(0)
	session := caps[0]
	caps, _ = p.works(1)
	top := caps[0]
	// A share of tmp alone, which is read-only.
	p.call(openDir(2, export(top), "tmp"))
	caps, _ = p.works(2)
	p.call(of(3, export(caps[0]), schema.Dir_readOnly, nil))
	caps, _ = p.works(3)
	p.call(of(4, export(session), schema.Session_share, func(w schema.Session_share_Params) error {
		r, err := w.NewRef()
		if err != nil {
			return err
		}
		return r.SetDir(pointer(w, 0))
	}, theirs(caps[0])))
	_, content := p.works(4)
	secret, err := schema.Session_share_Results(content.Struct()).Secret()
	ok(t, err)
	copy(l.Secret[:], secret)
	narrow := l.String()
	for range 2 {
		a, at := holder(t, narrow)
		for q := range uint32(8) {
			c := moveTo(q, export(at), promise(q))
			fill := c.params
			c.params = func(w rpc.Payload) error {
				if err := fill(w); err != nil {
					return err
				}
				_, err := capnp.NewData(w.Segment(), make([]byte, 4<<20-300))
				return err
			}
			a.nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
			if _, err := a.nc.Write(message(t, c.fill)); err != nil {
				break
			}
		}
	}
	time.Sleep(300 * time.Millisecond)
	p.call(putBytes(9, top, "project/f", 100<<10))
	p.flush()
	p.nc.SetReadDeadline(time.Now().Add(80 * time.Second))
	m, err := p.dec.Decode()
	ok(t, err)
	r, err := rpc.ReadRootMessage(m)
	ok(t, err)
	if r.Which() != rpc.Message_Which_return {
		e, _ := r.Abort()
		why, _ := e.Reason()
		t.Errorf("the put of the guest is answered by %v %q", r.Which(), why)
	}
}

func dialGuests(t testing.TB, loc string) net.Conn {
	l, err := locator.Parse(loc)
	ok(t, err)
	nc, err := net.Dial("unix", l.Socket)
	ok(t, err)
	t.Cleanup(func() { nc.Close() })
	return nc
}

func holder(t testing.TB, loc string) (*peer, uint32) {
	p := newPeer(t, dialGuests(t, loc))
	p.bootstrap(1 << 20)
	p.call(restore(1<<20+1, result(1<<20), secretOf(t, loc)))
	p.works(1 << 20)
	caps, _ := p.works(1<<20 + 1)
	return p, caps[0]
}

func putBytes(q, top uint32, name string, n int) call {
	return of(q, export(top), schema.Dir_put, func(w schema.Dir_put_Params) error {
		if err := w.SetPath(name); err != nil {
			return err
		}
		return w.SetData(make([]byte, n))
	})
}

func secretOf(t testing.TB, loc string) []byte {
	l, err := locator.Parse(loc)
	ok(t, err)
	return l.Secret[:]
}

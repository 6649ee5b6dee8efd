package client

import (
	"context"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	"capd/vat"
	"capd/vfs"
)

// ref is the capability that a node is reached by.
type ref struct {
	cap    *vat.Cap
	closed atomic.Bool
}

// Cap returns the capability, to pass it on. It remains the node's.
func (r *ref) Cap() *vat.Cap { return r.cap }

// Close releases the capability.
func (r *ref) Close() error {
	r.closed.Store(true)
	r.cap.Release()
	return nil
}

// lend puts r's capability into the parameters of a call, with set. It fails if every call on r does, since it is closed or known to
// have failed: the host would get a null capability.
func (r *ref) lend(caps *vat.Caps, set func(capnp.Interface) error) error {
	if err := r.open(); err != nil {
		return err
	}
	if e := r.cap.Err(); e != nil {
		return wire.Decode(e)
	}
	return set(caps.Put(r.cap.AddRef()))
}

// lent returns the error of a call to which r was lent. If r has failed meanwhile, that is the error: the host may have got a null
// capability.
func (r *ref) lent(err error) error {
	if e := r.cap.Err(); err != nil && e != nil {
		return wire.Decode(e)
	}
	return err
}

// open answers stale if r is closed.
func (r *ref) open() error {
	if r.closed.Load() {
		return vfs.ErrClosed
	}
	return nil
}

// again returns another node for r's capability.
func again[N vfs.Node](r *ref, node func(*vat.Cap) N) (vfs.Node, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	return node(r.cap.AddRef()), nil
}

// do is [wire.Do], unless r is closed.
func do[P, Q ~capnp.StructKind](ctx context.Context, r *ref, m vat.Method[P, Q], place func(P, *vat.Caps) error, read func(Q, *vat.Caps) error) error {
	if err := r.open(); err != nil {
		return err
	}
	return wire.Do(ctx, r.cap, m, place, read)
}

// ask is [wire.Ask], unless r is closed.
func ask[P, Q ~capnp.StructKind, T any](ctx context.Context, r *ref, m vat.Method[P, Q], place func(P, *vat.Caps) error, read func(Q, *vat.Caps) (T, error)) (v T, err error) {
	if err := r.open(); err != nil {
		return v, err
	}
	return wire.Ask(ctx, r.cap, m, place, read)
}

// promised makes a call, and returns the capability in a field of its results without
// waiting for them.
func promised[P, Q ~capnp.StructKind](ctx context.Context, c *vat.Cap, m vat.Method[P, Q], place func(P, *vat.Caps) error, field vat.Field) *vat.Cap {
	a := vat.Send(ctx, c, m, place)
	defer a.Release()
	return a.Cap(field)
}

// derived is promised for a method that does not wait. If err is not nil, it makes no call, and err is the error
// of every call on what it returns.
func derived[P, Q ~capnp.StructKind](err error, c *vat.Cap, m vat.Method[P, Q], place func(P, *vat.Caps) error, field vat.Field) *vat.Cap {
	if err != nil {
		return broken(err)
	}
	return promised(context.Background(), c, m, place, field)
}

func broken(err error) *vat.Cap { return vat.Broken(wire.Encode(err)) }

// held returns the node for a capability in results. It answers corrupt for none.
func held[N any](c *vat.Cap, node func(*vat.Cap) N) (n N, err error) {
	if c, err = wire.Held(c); err != nil {
		return n, err
	}
	return node(c), nil
}

// version reads the version in results.
func version[Q interface {
	~capnp.StructKind
	Version() ([]byte, error)
}](r Q, _ *vat.Caps) (vfs.Version, error) {
	return wire.Version(r.Version())
}

package client

import (
	"context"
	"sync/atomic"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// link implements vfs.Link. A link is not a capability on the wire, so each method
// looks at it again by its path.
type link struct {
	dir    *vat.Cap
	path   string
	closed atomic.Bool
}

func (l *link) Close() error {
	l.closed.Store(true)
	l.dir.Release()
	return nil
}

func (l *link) look(ctx context.Context, read func(schema.Node) error) error {
	if err := open(&l.closed); err != nil {
		return err
	}
	return wire.Do(ctx, l.dir, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetNoFollow(true)
		return p.SetPath(l.path)
	}, func(r schema.Dir_walk_Results, _ *vat.Caps) error {
		n, err := r.Node()
		if err != nil {
			return err
		}
		if n.Which() != schema.Node_Which_link {
			return vfs.Errorf(vfs.Stale, "the link is no longer there; look it up again")
		}
		return read(n)
	})
}

func (l *link) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = l.look(ctx, func(n schema.Node) error {
		st, err := n.Stat()
		if err != nil {
			return err
		}
		info, err = infoOf(st, vfs.LinkKind)
		return err
	})
	return info, err
}

// Target implements vfs.Link. It answers outside, and not the target, for a link that
// leads above the Dir where it was looked up.
func (l *link) Target(ctx context.Context) (target string, err error) {
	err = l.look(ctx, func(n schema.Node) error {
		w, err := n.Link()
		if err != nil {
			return err
		}
		if w.Outside() {
			return vfs.Errorf(vfs.Outside, "the link leads out of this Dir; its target is not shown")
		}
		target, err = w.Target()
		return err
	})
	return target, err
}

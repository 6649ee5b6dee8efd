package client

import (
	"context"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// link implements vfs.Link. A link is not a capability on the wire, so each method
// looks at it again by its path.
type link struct {
	ref  // of the directory
	path string
}

// look reads the link, which a host may have replaced, with read.
func look[T any](ctx context.Context, l *link, statOnly bool, read func(schema.Node) (T, error)) (T, error) {
	return ask(ctx, &l.ref, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetNoFollow(true)
		p.SetStatOnly(statOnly)
		return p.SetPath(l.path)
	}, func(r schema.Dir_walk_Results, _ *vat.Caps) (v T, err error) {
		n, err := r.Node()
		if err == nil && n.Which() != schema.Node_Which_link {
			err = vfs.Errorf(vfs.Stale, "the link is no longer there; look it up again")
		}
		if err != nil {
			return v, err
		}
		return read(n)
	})
}

func (l *link) Stat(ctx context.Context) (vfs.Info, error) {
	return look(ctx, l, true, func(n schema.Node) (vfs.Info, error) {
		st, err := n.Stat()
		return infoOf(st, err, vfs.LinkKind)
	})
}

// Target implements vfs.Link. It answers outside, and not the target, for a link that
// leads above the Dir where it was looked up.
func (l *link) Target(ctx context.Context) (string, error) {
	return look(ctx, l, false, func(n schema.Node) (string, error) {
		w, err := n.Link()
		if err != nil {
			return "", err
		}
		if w.Outside() {
			return "", vfs.Errorf(vfs.Outside, "the link leads out of this Dir; its target is not shown")
		}
		if !w.HasTarget() {
			return "", vfs.Errorf(vfs.Denied, "this capability lacks the right \"metadata\", so a link's target is not shown; ask its giver for one that has it")
		}
		return w.Target()
	})
}

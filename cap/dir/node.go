package dir

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// setNode fills in the node n, which was reached by path. If caps is nil, it leaves out
// the capability. Otherwise a node without the right to metadata gets a name and a type
// alone. setNode takes n over.
func (s *server) setNode(ctx context.Context, caps *vat.Caps, alloc func() (schema.Node, error), n vfs.Node, path string) error {
	keep := false
	defer func() {
		if !keep {
			n.Close()
		}
	}()
	if vfs.IsTrying(ctx) && !vfs.CanTry(n) {
		return vfs.ErrWouldBlock
	}
	info, err := n.Stat(ctx)
	named := err != nil && caps != nil && lacksMetadata(n)
	if named {
		info, err = vfs.Info{Kind: vfs.KindOf(n)}, nil
	}
	if err != nil {
		return err
	}
	w, err := alloc()
	if err != nil {
		return err
	}
	st, err := w.NewStat()
	if err != nil {
		return err
	}
	wire.SetInfo(st, info)
	st.SetLooked(!named)
	if err := wire.SetName(st, wire.Base(path)); err != nil {
		return err
	}
	switch n := n.(type) {
	case vfs.Dir:
		if caps == nil {
			return w.SetDir(capnp.Interface{})
		}
		keep = true
		return w.SetDir(caps.Put(reached(n, path)))
	case vfs.File:
		if caps == nil {
			return w.SetFile(capnp.Interface{})
		}
		keep = true
		return w.SetFile(caps.Put(file.New(n, path)))
	case vfs.Link:
		l, err := w.NewLink()
		if err != nil || named {
			return err
		}
		target, err := n.Target(ctx)
		if err != nil {
			return err
		}
		switch out, err := vfs.LeadsOut(ctx, s.dir, path, target); {
		case err != nil:
			return err
		case out:
			l.SetOutside(true)
			return nil
		}
		return l.SetTarget(target)
	}
	return vfs.NotRegular
}

// lacksMetadata reports whether n may be looked up, but lacks the right to metadata.
func lacksMetadata(n vfs.Node) bool {
	return membrane.May(n, membrane.To(membrane.OpStat)) != nil && membrane.May(n, membrane.To(membrane.OpLookup)) == nil
}

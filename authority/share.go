package authority

import (
	"fmt"

	"capd/vfs"
)

// Share mints a secret for n, which a guest of this host holds, with exactly its
// rights. It dies with the grant that n came from. The control is the sharer's,
// to take it back.
func (h *Host) Share(n vfs.Node) ([]byte, *vfs.Control, error) {
	node, ctl, err := derive(n)
	if err != nil {
		return nil, nil, err
	}
	revoker := ctl.Dup()
	g, secret, err := h.share(node, ctl)
	if err != nil {
		revoker.Release()
		node.Close()
		ctl.Release()
		return nil, nil, err
	}
	h.mourn(g, node)
	return secret, revoker, nil
}

func (h *Host) share(node vfs.Node, ctl *vfs.Control) (*grant, []byte, error) {
	parent, ok := vfs.OwnerOf(node).(*grant)
	if !ok {
		return nil, nil, vfs.Errorf(vfs.Invalid, "this belongs to no grant of this host")
	}
	place, _ := vfs.PlaceOf(node)
	g := &grant{
		Grant: Grant{Path: place.Path, Mode: parent.Mode, State: Active, Parent: parent.ID},
		node:  node, root: parent.root, ledger: parent.ledger,
	}
	if place.ReadOnly {
		g.Mode = ReadOnly
	}
	g.control.Store(ctl)
	ctl.Own(g)
	secret := g.mint()
	h.mu.Lock()
	defer h.mu.Unlock()
	if live := g.root.live; live >= MaxShares {
		return nil, nil, vfs.Errorf(vfs.Limit, "%d shares of this grant are alive; revoke some", live)
	}
	parent.holder.shared++ // a guest may hold several grants
	g.Guest = fmt.Sprintf("%s/%d", parent.Guest, parent.holder.shared)
	h.registry.add(g)
	return g, secret[:], nil
}

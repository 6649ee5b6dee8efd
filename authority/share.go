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
	h.mourn(g)
	return secret, revoker, nil
}

func (h *Host) share(node vfs.Node, ctl *vfs.Control) (*grant, []byte, error) {
	place, _ := vfs.PlaceOf(node)
	h.mu.Lock()
	defer h.mu.Unlock()
	parent, ok := vfs.OwnerOf(node).(*grant)
	if !ok {
		return nil, nil, vfs.Errorf(vfs.Invalid, "this belongs to no grant of this host")
	}
	live, number := 0, 0
	for _, g := range h.grants {
		if g.root == parent.root && g != g.root && !g.dead() {
			live++
		}
		if g.parent != nil && g.parent.Guest == parent.Guest { // a guest may hold several grants
			number = max(number, g.number)
		}
	}
	if live >= MaxShares {
		return nil, nil, vfs.Errorf(vfs.Limit, "%d shares of this grant are alive; revoke some", live)
	}
	number++
	g := &grant{
		Grant: Grant{
			Guest: fmt.Sprintf("%s/%d", parent.Guest, number), Path: place.Path, Mode: parent.Mode,
			State: Active, Parent: parent.ID,
		},
		node: node, parent: parent, root: parent.root, ledger: parent.ledger, number: number,
	}
	if place.ReadOnly {
		g.Mode = ReadOnly
	}
	g.control.Store(ctl)
	ctl.Own(g)
	secret := h.add(g)
	return g, secret[:], nil
}

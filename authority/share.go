package authority

import (
	"fmt"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Share mints a secret for n, which a guest of this host holds. The share has exactly n's
// rights, and ends when the grant that n came from ends. Its use counts in a part of the
// sharer's meter. The control belongs to the sharer, who can take the share back. Share
// answers invalid for a node of another host, and limit when the share would be nested
// too deep or one too many.
func (h *Host) Share(n vfs.Node) ([]byte, *membrane.Control, error) {
	of := membrane.MeterOf(n)
	if of == nil {
		return nil, nil, errForeign
	}
	if of.Depth() >= meter.MaxDepth {
		return nil, nil, errDeep
	}
	part := of.Part(of.Name())
	node, ctl, err := membrane.Revocable(n, part)
	if err != nil {
		part.End()
		return nil, nil, err
	}
	revoker, err := ctl.ForGuest()
	if err == nil {
		var g *grant
		var secret []byte
		if g, secret, err = h.share(node, ctl, of, part); err == nil {
			h.mourn(g, node)
			return secret, revoker, nil
		}
		revoker.Release()
	}
	node.Close()
	ctl.Release()
	part.End()
	return nil, nil, err
}

var errDeep = vfs.Errorf(vfs.Limit, "this is a share of a share, %d deep, and cannot be shared further; ask for a share with fewer shares above it", meter.MaxDepth)

var errForeign = vfs.Errorf(vfs.Invalid, "this belongs to no grant of this host")

// share registers a share of the grant or share whose meter is of. It counts as a live
// share there.
func (h *Host) share(node vfs.Node, ctl *membrane.Control, of, part *meter.Meter) (*grant, []byte, error) {
	place, _ := membrane.PlaceOf(node)
	g := &grant{Grant: operator.Grant{Path: place.Path, Mode: operator.ModeOf(place.Rights), Rights: place.Rights, State: operator.Active}, node: node, meter: part, giver: of}
	g.control.Store(ctl)
	secret := g.mint()
	h.mu.Lock()
	defer h.mu.Unlock()
	parent := h.registry.byMeter[of]
	if parent == nil { // the parent was buried meanwhile
		if err := ctl.Ended(); err != nil {
			return nil, nil, err
		}
		return nil, nil, errForeign
	}
	if err := membrane.Take(of, meter.Shares, 1); err != nil {
		return nil, nil, err
	}
	g.Subject, g.Parent, g.root = parent.Subject, parent.ID, parent.root
	parent.holder.shared++ // the guest's, who may hold several grants
	g.Guest = fmt.Sprintf("%s/%d", parent.Guest, parent.holder.shared)
	h.registry.add(g)
	return g, secret[:], nil
}

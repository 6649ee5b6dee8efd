package authority

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// walk returns the node at path in a membrane of its own, behind a gate whose settings h keeps. The rules for subject hold
// there; for "", which is the host itself, there are none. The caller calls release.
func (h *Host) walk(ctx context.Context, subject operator.Subject, path string) (n vfs.Node, release func(), err error) {
	// The view of the whole tree is not closed: that would close the tree, which the
	// grants share, and the view holds nothing else. (A wrapper without Close would not
	// do: a store moves nodes only to directories of its own.)
	guard := membrane.Guard{Bulkhead: h.bulkhead, Journal: h.journal, Policy: h.ruling(subject), Feed: h.feed}
	if subject != "" {
		guard.Temps = h.temps
		guard.Hides = h.roots.Load().Withheld(subject, path)
	}
	all := membrane.Guarded(h.root, membrane.NewKeptGate(settings{h}, h.clock), h.keeper(), guard)
	if path == "" {
		return all, func() {}, nil
	}
	if n, err = vfs.Walk(ctx, all, path); err != nil {
		return nil, nil, err
	}
	return n, func() { n.Close() }, nil
}

// ruling returns the policy for what subject does.
func (h *Host) ruling(subject operator.Subject) membrane.Policy {
	if h.policy == nil || subject == "" {
		return nil
	}
	return h.policy.For(subject)
}

// place sets what r says of where node is.
func (h *Host) place(ctx context.Context, r *row, node vfs.Node) (err error) {
	if at, ok := membrane.PlaceOf(node); ok {
		r.path = at.Path
	}
	if h.places != nil {
		r.mounts = h.places.Mounted(r.path)
	}
	r.identity, err = h.identity(ctx, r.path, node)
	return err
}

// identity returns what tells the directory node from others, or the one that the file node lies in. It returns "" if the
// store cannot tell.
func (h *Host) identity(ctx context.Context, at string, node vfs.Node) (string, error) {
	d, ok := node.(vfs.Dir)
	if !ok { // editors replace files, and a File is a place
		up := strings.TrimSuffix(path.Dir(at), ".")
		n, release, err := h.walk(ctx, "", up)
		if err != nil {
			return "", err
		}
		defer release()
		if d, ok = n.(vfs.Dir); !ok {
			return "", vfs.NotDir
		}
	}
	text, err := vfs.Identity(ctx, d)
	if vfs.CodeOf(err) == vfs.Unsupported {
		return "", nil
	}
	return text, err
}

// build makes what is in memory of r: node is what it leads to, and remains the caller's. from is nil in a root grant.
func (h *Host) build(r *row, node vfs.Node, from *grant) (*grant, error) {
	if r.rights != membrane.EveryRight {
		narrow, err := membrane.Narrow(node, r.rights)
		if err != nil {
			return nil, err
		}
		defer narrow.Close()
		node = narrow
	}
	g := &grant{parent: from}
	if from == nil {
		g.meter = h.meters.Grant(r.name, h.defaults())
	} else {
		g.giver, g.between = from.meter, !from.control.At(node)
		g.meter = from.meter.Part(from.meter.Name())
	}
	g.meter.Set(r.limits)
	g.meter.Resume(h.storedBy(r))
	var err error
	if g.node, g.control, err = membrane.Revocable(node, g.meter); err != nil {
		g.meter.End()
		return nil, err
	}
	g.row = *r
	if r.expires != 0 {
		g.control.ExpireAt(time.UnixMilli(r.expires))
	}
	return g, nil
}

// admit makes a new grant durable and resident, with what is done beside it. If that fails it lets go of what g holds.
func (h *Host) admit(g *grant, with granting) error {
	h.secrets.add(g.digest)
	err := h.db.Write(func(tx *database.Tx) error {
		if with.check != nil {
			if err := with.check(tx); err != nil {
				return err
			}
		}
		if err := insert(tx, &g.row); err != nil {
			return err
		}
		if with.also != nil {
			if err := with.also(tx, g); err != nil {
				return err
			}
		}
		return h.noteGranted(tx, g)
	})
	if err != nil {
		h.discard(g)
		return err
	}
	h.settings.Lock()
	_, err = h.publish(context.Background(), g)
	h.settings.Unlock()
	if err != nil { // nobody knows its secret
		_ = h.db.Write(func(tx *database.Tx) error {
			_, _, err := h.endAll(tx, []int64{g.id}, revoked)
			return err
		})
	}
	return err
}

// discard lets go of what g holds, which is not resident.
func (h *Host) discard(g *grant) {
	_ = g.control.Gate.Revoke() // nobody has used it
	g.node.Close()
	g.control.Release()
	g.giveBack()
	g.meter.End()
}

// giveBack gives back what a share counts as where it came from.
func (g *grant) giveBack() {
	if g.giver != nil && !g.given.Swap(true) {
		g.giver.Give(meter.Shares, 1)
	}
}

// publish makes g resident, unless another is already, which it returns then. A revocation beside it either
// finds g among the residents, or publish finds the revocation in the row. So g cannot be restored before the row was read. The
// caller holds h.settings. If publish fails it lets go of what g holds.
func (h *Host) publish(ctx context.Context, g *grant) (*grant, error) {
	node := g.node
	g.control.Keep(g.id)
	g.own, g.loaded = g.control.References(), h.clock.Now()
	h.mu.Lock()
	other, _ := h.residents.byID.Get(g.id)
	switch {
	case h.closed:
		h.mu.Unlock()
		h.discard(g)
		return nil, errEnded
	case other != nil && other.node != nil:
		h.mu.Unlock()
		h.discard(g)
		return other, nil
	}
	g.node = nil
	h.residents.add(g)
	h.mu.Unlock()
	r, err := h.read(ctx, g.id)
	if err == nil {
		err = cmp.Or(g.end(), g.agrees(r))
	}
	h.mu.Lock()
	if err == nil && h.closed {
		err = errEnded
	}
	g.node = node
	h.residents.remove(g)
	if err == nil {
		g.digest = r.digest // of a secret that may be newer
		h.residents.add(g)
		h.crowded()
	}
	h.mu.Unlock()
	if err != nil {
		h.discard(g)
		return nil, err
	}
	h.mourn(g, node)
	return g, nil
}

// agrees answers errChanged if g was made of r before the terms of r were changed.
func (g *grant) agrees(r *row) error {
	if g.rights == r.rights && g.expires == r.expires && g.unused == r.unused && g.uses < 0 == (r.uses < 0) {
		return nil
	}
	return errChanged
}

// errChanged says that what was to become resident has other terms now. Host.load tries again.
var errChanged = vfs.Errorf(vfs.Busy, "the terms of this grant were changed just now; try again")

var errEnded = vfs.Errorf(vfs.Stale, "this host has ended and grants nothing any more")

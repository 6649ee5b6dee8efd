package authority

import (
	"strconv"
	"sync/atomic"

	"github.com/tidwall/btree"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// grant is a resident grant or share.
type grant struct {
	row            // Host.mu guards expires, unused and uses
	parent  *grant // of a share
	control *membrane.Control
	meter   *meter.Meter // in which its use counts
	between bool         // of a share: it was shared from behind a gate below its parent's
	own     int          // references to the gate that the host has
	giver   *meter.Meter // of a share: the meter from which it was shared, where it counts as one share
	given   atomic.Bool  // it does not count there any more

	// Host.mu guards these.
	node    vfs.Node // what the locator restores; nil once it has ended or its tree was unmounted
	unwatch func()
	buried  bool
	evicted bool  // it was let go, and did not end
	loaded  int64 // when it became resident
	seen    int64 // when it was last used, in milliseconds since 1970; 0: not since it became resident
	kept    int64 // when that was last kept
}

// shared reports whether g is a share.
func (g *grant) shared() bool { return g.parent != nil }

// end returns what every call through g answers once g was revoked or has expired. Before that it returns nil.
func (g *grant) end() error { return g.control.Ended() }

// now returns g as it is now. The caller holds h.mu.
func (h *Host) now(g *grant) operator.Grant {
	out := g.described()
	if g.control.Locked() {
		out.State = operator.Locked
	}
	if err := g.end(); err != nil {
		out.State = stateOf(err)
	}
	return out
}

// stateOf returns the state of a grant of which every call answers err.
func stateOf(err error) operator.State {
	if vfs.CodeOf(err) == vfs.Expired {
		return operator.Expired
	}
	return operator.Revoked
}

// described returns what the row alone says.
func (r *row) described() operator.Grant {
	out := operator.Grant{Guest: r.name, Subject: r.subject, ID: idText(r.id), Path: r.path, Mode: operator.ModeOf(r.rights), Rights: r.rights, Root: r.root, Source: r.source, State: operator.Active}
	if r.parent != 0 {
		out.Parent = idText(r.parent)
	}
	out.ExpiresMs, out.UnusedMs = r.expires, r.unused
	switch {
	case r.uses > 0:
		out.UsesLeft = r.uses
	case r.uses == 0:
		out.UsesLeft = -1
	}
	if err := r.end(); err != nil {
		out.State = stateOf(err)
	}
	return out
}

func idText(id int64) string { return "g" + strconv.FormatInt(id, 10) }

// residents indexes the resident grants. Host.mu guards it.
type residents struct {
	byID     *btree.Map[int64, *grant]
	byDigest map[digest]*grant
	byMeter  map[*meter.Meter]*grant
}

func (r *residents) add(g *grant) {
	r.byID.Set(g.id, g)
	r.byDigest[g.digest] = g
	r.byMeter[g.meter] = g
}

// remove removes g, unless another has taken its place.
func (r *residents) remove(g *grant) {
	if at, _ := r.byID.Get(g.id); at == g {
		r.byID.Delete(g.id)
	}
	if r.byDigest[g.digest] == g {
		delete(r.byDigest, g.digest)
	}
	delete(r.byMeter, g.meter)
}

// resident returns the resident grant with that id, or nil.
func (h *Host) resident(id int64) *grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, _ := h.residents.byID.Get(id)
	return g
}

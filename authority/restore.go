package authority

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"capd/database"
	"capd/locator"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

// ErrWouldWait is what [Host.TryRestore] answers when Restore would wait for the database or a store.
var ErrWouldWait = errors.New("restoring this would wait")

// Restore returns a new reference to the node that a secret stands for, and the meter in
// which its use counts. The secret is looked up by its digest, so the time that this
// takes says nothing about how close to a right secret it was. Restore answers denied for a secret that this
// host does not know, revoked or expired for a grant that has ended, and stale when the path does not lead to what was
// granted, as after a move. If the grant has a number of uses, this one is durable when Restore returns.
func (h *Host) Restore(ctx context.Context, secret []byte) (vfs.Node, *meter.Meter, error) {
	n, m, err := h.TryRestore(secret)
	if err != ErrWouldWait {
		return n, m, err
	}
	id, err := h.known(ctx, digestOf(secret))
	if err == nil {
		n, m, err = h.restore(ctx, id)
	}
	h.unrestored(id, err)
	return n, m, err
}

// restore uses the grant with that id, and returns a new reference to its node.
func (h *Host) restore(ctx context.Context, id int64) (vfs.Node, *meter.Meter, error) {
	for used := false; ; used = true {
		g, err := h.load(ctx, id)
		if err == nil && !used {
			err = h.use(g)
		}
		if err != nil {
			return nil, nil, err
		}
		if n, m, err := h.reference(g); err != errEvicted {
			return n, m, err
		}
	}
}

// TryRestore is Restore, but answers [ErrWouldWait] if it would have to wait.
func (h *Host) TryRestore(secret []byte) (vfs.Node, *meter.Meter, error) {
	if len(secret) != locator.SecretSize { // its bytes are not read, however many there are
		h.unrestored(0, errNoLocator)
		return nil, nil, errNoLocator
	}
	d := digestOf(secret)
	h.mu.Lock()
	g := h.residents.byDigest[d]
	wait := g == nil || g.uses != anyUses
	h.mu.Unlock()
	if g == nil && !h.secrets.may(d) {
		h.unrestored(0, errNoLocator)
		return nil, nil, errNoLocator
	}
	if wait {
		return nil, nil, ErrWouldWait
	}
	n, m, err := h.reference(g)
	if err != nil && g.end() == nil {
		return nil, nil, ErrWouldWait
	}
	h.unrestored(g.id, err)
	return n, m, err
}

// reference returns a new reference to g's node.
func (h *Host) reference(g *grant) (vfs.Node, *meter.Meter, error) {
	now := h.clock.Now()
	h.evictor.borrow.RLock()
	defer h.evictor.borrow.RUnlock()
	h.mu.Lock()
	node, neglected, evicted, err := g.node, g.neglected(now), g.evicted, h.heldBack(g)
	h.mu.Unlock()
	if err := cmp.Or(g.end(), err); err != nil {
		return nil, nil, err
	}
	switch {
	case evicted:
		return nil, nil, errEvicted
	case neglected:
		return nil, nil, g.expire()
	case node == nil:
		return nil, nil, errElsewhere
	}
	n, err := vfs.Dup(node)
	if err != nil {
		if end := g.end(); end != nil {
			return nil, nil, end
		}
		return nil, nil, err
	}
	h.mu.Lock()
	h.used(g, now, g.uncounted())
	h.mu.Unlock()
	return n, membrane.MeterOf(n), nil
}

// eachUse is how often at most it is kept when a grant was last used.
const eachUse = time.Minute

// known returns the id of the grant with that digest.
func (h *Host) known(ctx context.Context, d digest) (id int64, err error) {
	invites := false
	err = h.db.Read(ctx, func(rows *database.Rows) error {
		err := rows.Row("SELECT id FROM grants WHERE digest=?", d[:]).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			id = 0
			err = rows.Row("SELECT EXISTS(SELECT 1 FROM invites WHERE digest=?)", d[:]).Scan(&invites)
		}
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case invites:
		return 0, errInvitation
	case id == 0:
		return 0, errNoLocator
	}
	return id, nil
}

// uncounted returns 1 if use does not count g's uses. The caller holds h.mu.
func (g *grant) uncounted() int64 {
	if g.uses == anyUses {
		return 1
	}
	return 0
}

// use counts a use of g, if its uses are counted.
func (h *Host) use(g *grant) error {
	h.mu.Lock()
	any, err := g.uses == anyUses, h.heldBack(g)
	h.mu.Unlock()
	if any || err != nil {
		return err
	}
	return h.db.Write(func(tx *database.Tx) error {
		done, err := tx.Exec("UPDATE grants SET uses=uses-1, restored=restored+1 WHERE id=? AND uses>0", g.id)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errSpent
	})
}

var (
	errNoLocator = vfs.Errorf(vfs.Denied, "this host did not make this locator; ask for another")
	// errInvitation is for a holder who can ask with it.
	errInvitation = vfs.Errorf(vfs.Invalid, "this locator is an invitation: it gives nothing itself; use restorePetitioner, and ask")
	errSpent      = vfs.Errorf(vfs.Expired, "the uses of this locator are spent; ask for another")
)

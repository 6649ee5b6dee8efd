package authority

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"capd/database"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// withdrawal is something that was taken away: grants that were revoked, or what is refused at a path of one. When the database
// cannot be written it is kept in a file beside it.
type withdrawal struct {
	Revoked []int64           `json:"revoked,omitempty"` // and what was shared from them
	Grant   int64             `json:"grant,omitempty"`
	Path    []byte            `json:"path,omitempty"`
	Refuses membrane.Refusals `json:"refuses,omitempty"` // at Path of Grant, in place of what was refused there
	Invites []int64           `json:"invites,omitempty"` // invitations that were ended
	Locked  bool              `json:"locked,omitempty"`  // Grant, besides what was refused
}

// write writes w to the database.
func (w *withdrawal) write(h *Host, tx *database.Tx) error {
	if err := h.endInvite(tx, w.Invites); err != nil {
		return err
	}
	if _, _, err := h.endAll(tx, w.Revoked, revoked); err != nil || w.Grant == 0 {
		return err
	}
	if live, err := ids(&tx.Rows, "SELECT id FROM grants WHERE id=?", w.Grant); err != nil || len(live) == 0 {
		return err
	}
	if w.Locked {
		return h.keepWritable(tx, w.Grant, false)
	}
	return h.keepRefusals(tx, w.Grant, string(w.Path), w.Refuses)
}

// withdrawn is what was taken away and is not in the database, although it holds.
type withdrawn struct {
	mu      sync.Mutex
	revoked map[int64]bool
	invites map[int64]bool
	refused []withdrawal
}

// add adds w. all are the grants that w revokes.
func (a *withdrawn) add(w withdrawal, all []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.revoked == nil {
		a.revoked, a.invites = map[int64]bool{}, map[int64]bool{}
	}
	for _, n := range w.Invites {
		a.invites[n] = true
	}
	for _, id := range all {
		a.revoked[id] = true
	}
	if w.Grant != 0 {
		a.refused = append(a.refused, w)
	}
}

// mark ends r if it was revoked.
func (a *withdrawn) mark(r *row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.revoked[r.id] && r.ended == "" {
		r.ended = revoked
	}
}

// markInvite ends i, which has that number, if it was ended.
func (a *withdrawn) markInvite(number int64, i *operator.Invite) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.invites[number] && i.State == operator.Active {
		i.State = operator.Revoked
	}
}

// allow forgets what was refused at path of a grant: less is refused there now, and that is in the database.
func (a *withdrawn) allow(id int64, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = slices.DeleteFunc(a.refused, func(w withdrawal) bool { return w.Grant == id && string(w.Path) == path })
}

// lock marks those of some, which the rows all describe, that are locked.
func (a *withdrawn) lock(all []*row, some []operator.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.refused {
		locks := len(w.Path) == 0 && (w.Locked || w.Refuses&membrane.RefuseChanges != 0)
		for i, r := range all {
			if locks && (r.id == w.Grant || r.top == w.Grant) && some[i].State == operator.Active {
				some[i].State = operator.Locked
			}
		}
	}
}

// refuse sets at g's gates what is refused there.
func (a *withdrawn) refuse(g *grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.refused {
		if w.Grant != g.id {
			continue
		}
		if w.Locked {
			w.Refuses |= membrane.RefuseChanges
		}
		g.control.Refuse(string(w.Path), w.Refuses)
	}
}

// withdraw writes w with do, which is called with a transaction. w holds as long as h runs, whatever is wrong with the disk. If the
// database cannot be written any more, w is kept beside it for the next start.
func (h *Host) withdraw(w withdrawal, do func(*database.Tx) error) error {
	err := h.db.Urgent(do)
	if err == nil {
		return nil
	}
	all := w.Revoked
	_ = h.db.Read(context.Background(), func(rows *database.Rows) error {
		for _, id := range w.Revoked {
			below, err := liveBelow(rows, id)
			if err != nil {
				return err
			}
			all = append(all, below...)
		}
		return nil
	})
	h.withdrawn.add(w, all)
	if h.db.Failed() == nil {
		return err
	}
	line, err := json.Marshal(w)
	if err == nil {
		err = h.db.KeepAside(line)
	}
	if err != nil {
		return &vfs.Error{Code: vfs.Internal, Cause: err,
			Msg: "this holds while the host runs, and could not be written: it may be undone when the host is started again, since the disk of its state fails"}
	}
	return nil
}

// takeAside writes to the database what an earlier host kept beside it.
func (h *Host) takeAside() error {
	lines, err := h.db.Aside()
	if err != nil || len(lines) == 0 {
		return err
	}
	for _, line := range lines {
		var w withdrawal
		if json.Unmarshal(line, &w) != nil {
			continue // it was cut off, and nobody was told that it is kept
		}
		if err := h.withdraw(w, func(tx *database.Tx) error { return w.write(h, tx) }); err != nil {
			return err
		}
	}
	if err := h.db.Failed(); err != nil {
		return err
	}
	return h.db.DropAside()
}

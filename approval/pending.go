package approval

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"capd/database"
	"capd/vfs"
)

// room makes room for one more request of a root grant: it drops the oldest one that may give way to a, and returns it. d.mu is held.
func (d *Desk) room(a *Asked) (gone *ask, err error) {
	d.dropEnded()
	if a.Request != nil {
		return d.roomFor(a.Request)
	}
	pending := d.pendingOf(func(q *ask) bool { return q.root == a.Root })
	err = a.fits(pending)
	if err == nil {
		return nil, nil
	}
	i := slices.IndexFunc(pending, func(q *ask) bool { return q.idle() && a.mayDrop(q) })
	if i < 0 {
		return nil, err
	}
	d.remove(pending[i])
	return pending[i], nil
}

// fits answers limit if one more request of a does not fit beside pending, which is what waits of its root grant. A share,
// together with what was shared from it, has at most as many as all shares leave free. So one has at most half of them. A share of
// a share has at most half of that, and so on. What the holder of the root grant asks for takes nothing from that.
func (a *Asked) fits(pending []*ask) error {
	if len(pending) >= MaxPending {
		return vfs.Errorf(vfs.Limit, "%d changes of this grant and of its shares wait for an approval already, which is the most; wait for a decision", MaxPending)
	}
	steps := strings.Split(a.Guest, "/") // the holder of the root grant, and the shares that lead to a
	used := make([]int, len(steps))      // with what was shared from each
	free := MaxPending - 1
	for _, q := range pending {
		if strings.Contains(q.guest, "/") {
			free--
		}
		for i := range steps {
			if asks := strings.Join(steps[:i+1], "/"); q.guest == asks || strings.HasPrefix(q.guest, asks+"/") {
				used[i]++
			}
		}
	}
	for i, n := range used[1:] {
		if n >= min(free, max(MaxPending>>(i+1), 1)) {
			return errShare
		}
	}
	return nil
}

var errShare = vfs.Errorf(vfs.Limit, "as many changes of this share wait for an approval already as it may have beside its giver and other shares; wait for a decision")

// mayDrop reports whether q may give way to a: the same holder has asked for it, or somebody with whom that one has shared. The
// requests of its giver, and of other shares, stay.
func (a *Asked) mayDrop(q *ask) bool {
	return q.grant == a.Grant || strings.HasPrefix(q.guest, a.Guest+"/")
}

// idle reports whether nobody is concerned with q, which waits for a decision.
func (q *ask) idle() bool { return q.waiting == 0 && !q.deciding }

// pendingOf returns what waits for a decision, the oldest first. d.mu is held.
func (d *Desk) pendingOf(whose func(*ask) bool) (all []*ask) {
	for _, q := range d.asks {
		if q.pending() && whose(q) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *ask) int { return cmp.Or(a.asked.Compare(b.asked), slices.Compare(a.id[:], b.id[:])) })
	return all
}

func (d *Desk) add(q *ask) { d.asks[q.id], d.bound[q.binding] = q, q }

// remove takes q out, so that nobody finds it. d.mu is held.
func (d *Desk) remove(q *ask) {
	delete(d.asks, q.id)
	if d.bound[q.binding] == q {
		delete(d.bound, q.binding)
	}
	if q.pending() {
		q.decided = time.Now()
		close(q.over)
	}
}

func (d *Desk) drop(q *ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(q)
}

// sweep forgets what says nothing any more.
func (d *Desk) sweep() {
	now := time.Now()
	d.forget(now)
	d.db.Later(func(tx *database.Tx) error { return tidy(tx, now) }) // not under mu, which Ended takes while the database writes
}

func (d *Desk) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.asks {
		if q.pending() && q.idle() && now.Sub(q.asked) >= kept || !q.pending() && now.Sub(q.decided) >= Holds {
			d.remove(q)
		}
	}
	for root, all := range d.standing {
		all = slices.DeleteFunc(all, func(s *standing) bool { return !now.Before(s.until) })
		if d.standing[root] = all; len(all) == 0 {
			delete(d.standing, root)
		}
	}
}

package approval

import (
	"errors"
	"time"

	"capd/database"
	"capd/operator"
)

// follow decides about what waits under a root grant and is approved by now, since another request was answered with always. The calls
// that wait for it go on. They go on with a full disk too: the approval itself is on disk, and the next start writes the rest.
func (d *Desk) follow(root int64) {
	all := d.approved(root)
	if len(all) == 0 {
		return
	}
	at := time.Now()
	_ = d.db.Write(func(tx *database.Tx) error {
		for q, s := range all {
			if err := d.decide(tx, q, operator.Verdict{Answer: operator.Always}, s.by, at, nil); err != nil && !errors.Is(err, errNoAsk) {
				return err
			}
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	for q, s := range all {
		q.end(operator.Verdict{Answer: operator.Always}, s.by, at)
	}
	time.AfterFunc(Holds, d.sweep)
}

// approved returns what waits under a root grant although it is approved, each with what approves it. It reserves that for a decision. What
// is not on disk yet is left out: join calls follow when it is.
func (d *Desk) approved(root int64) map[*ask]*standing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.standing[root]) == 0 {
		return nil
	}
	now, all := time.Now(), map[*ask]*standing{}
	for _, q := range d.asks {
		if q.request != nil || q.root != root || !q.pending() || q.deciding || !q.onDisk() {
			continue
		}
		if s := d.stands(root, q.place, now); s != nil {
			q.deciding, all[q] = true, s
		}
	}
	return all
}

// onDisk reports whether the row of q is on disk.
func (q *ask) onDisk() bool {
	select {
	case <-q.written:
		return q.failed == nil
	default:
		return false
	}
}

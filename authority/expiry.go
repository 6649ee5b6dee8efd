package authority

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// A grant expires at a time, or when nobody has used it for some time. Whoever restores it or calls through it
// finds out by comparing the time. Every few seconds a tick does the rest: it ends the rows, and tells those who only
// wait.

// tickEach is how often time is looked at, once a grant can expire. markEach is how often the time is kept.
const (
	tickEach = 5 * time.Second
	markEach = time.Minute
)

// expired says in a row that its time was over.
const expired = "expired"

// timed reports whether r can expire.
func (r *row) timed() bool { return r.expires != 0 || r.unused != 0 }

// limitTime sets how long and how often the new grant r may be used on t. It answers invalid.
func (h *Host) limitTime(r *row, t operator.Terms) error {
	if t.Expires < 0 || t.Unused < 0 || t.Uses < 0 {
		return vfs.Errorf(vfs.Invalid, "a time and a number of uses are above 0; leave them out for no end")
	}
	if t.Uses > 0 {
		r.uses = t.Uses
	}
	if t.Expires > 0 {
		r.expires = r.since + max(t.Expires.Milliseconds(), 1)
	}
	if t.Unused > 0 {
		r.unused = max(t.Unused.Milliseconds(), 1)
	}
	return nil
}

// over reports whether r's time is over at now.
func (r *row) over(now int64) bool {
	return r.expires != 0 && r.expires <= now || r.unused != 0 && max(r.since, r.used)+r.unused <= now
}

// neglected reports whether nobody has used g for too long. The caller holds h.mu.
func (g *grant) neglected(now int64) bool {
	return g.unused != 0 && g.meter.Used(meter.Connections) == 0 && max(g.since, g.row.used, g.seen)+g.unused <= now
}

// expire shuts g, because nobody has used it for too long.
func (g *grant) expire() error {
	g.control.ExpireAt(time.UnixMilli(1))
	return vfs.Expired
}

// remember tells the clock how late it was when an earlier host ran, and begins to tick if a grant can expire.
func (h *Host) remember() {
	var mark int64
	var some bool
	err := h.db.Read(context.Background(), func(rows *database.Rows) error {
		err := rows.Row("SELECT value FROM meta WHERE key='clock'").Scan(&mark)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return rows.Row("SELECT EXISTS(SELECT 1 FROM grants WHERE " + canExpire + ")").Scan(&some)
	})
	h.clock.Advance(mark)
	if some || err != nil { // what cannot be read now may be readable later
		h.tickOn()
	}
}

// canExpire is of the rows in the index grants_timed.
const canExpire = "ended IS NULL AND (expires IS NOT NULL OR unused IS NOT NULL)"

// tickOn begins to tick, unless h ticks already or was closed.
func (h *Host) tickOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ticker == nil && !h.closed {
		h.ticker = time.AfterFunc(tickEach, func() { h.burials.Go(h.tick) })
	}
}

func (h *Host) tick() {
	now := h.clock.Now()
	h.expireResidents(now)
	h.invited.expire(now)
	_ = h.expireRows(now) // the next tick tries again
	if now-h.marked.Load() >= markEach.Milliseconds() {
		h.marked.Store(now)
		h.db.Later(func(tx *database.Tx) error { return mark(tx, now) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.ticker.Reset(tickEach)
	}
}

// stopTicking stops the ticks and keeps the time. h is closed.
func (h *Host) stopTicking() error {
	h.mu.Lock()
	ticker := h.ticker
	h.ticker = nil
	h.mu.Unlock()
	if ticker == nil {
		return nil
	}
	ticker.Stop()
	now := h.clock.Now()
	return h.db.Write(func(tx *database.Tx) error { return mark(tx, now) })
}

// mark keeps how late it was.
func mark(tx *database.Tx, now int64) error {
	_, err := tx.Exec("INSERT INTO meta(key, value) VALUES('clock', ?) ON CONFLICT(key) DO UPDATE SET value=max(value, excluded.value)", now)
	return err
}

// expireResidents tells those who wait for resident grants whose time is over, and notes which grants are in use.
func (h *Host) expireResidents(now int64) {
	var over, idle []*grant
	h.mu.Lock()
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		switch {
		case g.neglected(now):
			idle = append(idle, g)
		case g.unused != 0 && g.meter.Used(meter.Connections) > 0:
			h.used(g, now, 0)
		}
		if _, ok := g.control.Deadline(); ok {
			over = append(over, g)
		}
		return true
	})
	h.mu.Unlock()
	for _, g := range idle {
		_ = g.expire()
	}
	for _, g := range over {
		g.control.Expire()
	}
}

// used notes that g is used, after so many restores, and keeps that if it was not kept lately. The caller holds h.mu.
func (h *Host) used(g *grant, now, restores int64) {
	each := eachUse.Milliseconds()
	if g.unused != 0 {
		each = min(each, g.unused/4)
	}
	g.seen = now
	if now-g.kept > each {
		g.kept = now
		h.db.Later(func(tx *database.Tx) error {
			_, err := tx.Exec("UPDATE grants SET used=max(COALESCE(used, 0), ?), restored=restored+? WHERE id=?", now, restores, g.id)
			return err
		})
	}
}

// expireRows ends the grants whose time is over, and what was shared from them.
func (h *Host) expireRows(now int64) error {
	var found []int64
	err := h.db.Read(context.Background(), func(rows *database.Rows) (err error) {
		found, err = ids(rows, "SELECT id FROM grants WHERE "+canExpire+" AND (expires<=? OR max(made, COALESCE(used, 0))+unused<=?) LIMIT 1000", now, now)
		return err
	})
	if err != nil {
		return err
	}
	var over []int64
	for _, id := range found {
		if g := h.resident(id); g == nil || g.end() != nil { // a guest may be using it, which is kept a little later
			over = append(over, id)
		}
	}
	if len(over) == 0 {
		return nil
	}
	var of map[int64]int
	err = h.db.Write(func(tx *database.Tx) (err error) {
		_, of, err = h.endAll(tx, over, expired)
		return err
	})
	for top, n := range of {
		h.forgets.ended(h.db, top, n)
	}
	if of[0] > 0 && h.left != nil {
		h.left()
	}
	return err
}

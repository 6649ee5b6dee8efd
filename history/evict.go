package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"capd/database"
)

// bound forgets changes of the root grant top, and of the one that keeps most, until a tenth of each bound is free again.
func (j *Journal) bound(tx *database.Tx, top int64) error {
	if j.now().Sub(j.swept) > time.Minute {
		if err := j.expire(tx); err != nil {
			return err
		}
	}
	if t := j.kept[top]; t != nil && !t.within(total{j.bounds.Bytes, j.bounds.Changes}) && !t.within(j.held[top]) {
		before := *t
		if err := j.evict(tx, top, t.bytes-j.bounds.Bytes*9/10, t.changes-j.bounds.Changes*9/10); err != nil {
			return err
		}
		if delete(j.held, top); *t == before {
			j.held[top] = total{t.bytes + j.bounds.Bytes/10, t.changes + j.bounds.Changes/10}
		}
	}
	if j.all <= j.bounds.All {
		return nil
	}
	for _, id := range slices.SortedFunc(maps.Keys(j.kept), func(a, b int64) int { return cmp.Compare(j.kept[b].bytes, j.kept[a].bytes) }) {
		if err := j.evict(tx, id, j.all-j.bounds.All*9/10, 0); err != nil || j.all <= j.bounds.All {
			return err
		}
	}
	return nil
}

// expire forgets what is too old.
func (j *Journal) expire(tx *database.Tx) error {
	j.swept = j.now()
	begin := j.swept.Add(-j.bounds.Age).UnixMilli()
	if j.oldest >= begin {
		return nil
	}
	old, err := scan(&tx.Rows, columns+"WHERE at<? AND now IS NOT NULL LIMIT 1000", begin)
	if err != nil {
		return err
	}
	held := j.beingUndone()
	var forgotten []*Row
	for _, r := range old {
		if held[r.Entry] {
			continue
		}
		if err := j.forget(tx, r); err != nil {
			return err
		}
		forgotten = append(forgotten, r)
	}
	if err := short(tx, forgotten); err != nil {
		return err
	}
	oldest := int64(math.MaxInt64)
	if err := tx.Row("SELECT coalesce(min(at), ?) FROM journal WHERE now IS NOT NULL", oldest).Scan(&oldest); err != nil {
		return err
	}
	tx.OnCommit(func() { j.oldest = oldest })
	return nil
}

// evict forgets changes of top until so many bytes and changes fewer are kept. Where a file was changed several times in a row, the later
// changes become part of the first, which keeps the oldest content. If that is not enough the oldest changes go, but the newest only if it is
// beyond the bounds by itself. What an undo under way needs stays, and so do its own changes while they are not much more than the bounds.
func (j *Journal) evict(tx *database.Tx, top, bytes, changes int64) error {
	rows, err := scan(&tx.Rows, columns+"WHERE top=? AND now IS NOT NULL ORDER BY id", top)
	if err != nil {
		return err
	}
	t, held := j.kept[top], j.beingUndone()
	enough := func() bool { return bytes <= 0 && changes <= 0 }
	fits := func() bool {
		return t.bytes <= j.bounds.Bytes && t.changes <= j.bounds.Changes && j.all <= j.bounds.All
	}
	stays := func(r *Row) bool {
		target, is := held[r.Entry]
		return target || is && t.bytes <= 2*j.bounds.Bytes && t.changes <= 6*j.bounds.Changes
	}
	size := map[int64]int{} // of entries
	for _, r := range rows {
		size[r.Entry]++
	}
	gone := map[*Row]bool{}
	last := map[string]*Row{}
	for _, r := range rows {
		if enough() {
			return nil
		}
		before := last[r.Path]
		last[r.Path] = r
		if r.To != "" || before == nil || !joins(before, r) || stays(before) || stays(r) || size[r.Entry] > 1 || size[before.Entry] > 1 {
			delete(last, r.To)
			continue
		}
		if _, err := tx.Exec("UPDATE journal SET now=? WHERE id=? AND part=?", text(r.Now), before.ID, before.Part); err != nil {
			return err
		}
		if err := j.remove(tx, r); err != nil {
			return err
		}
		before.Now, last[r.Path] = r.Now, before
		gone[r] = true
		bytes, changes = bytes-r.Bytes, changes-1
	}
	entry := int64(0)
	var forgotten []*Row
	for _, r := range rows {
		if gone[r] || r.Entry != entry && stays(r) {
			continue
		}
		if r.Entry != entry && (enough() || r.Entry == rows[len(rows)-1].Entry && fits()) {
			break
		}
		entry = r.Entry
		if err := j.forget(tx, r); err != nil {
			return err
		}
		bytes, changes = bytes-r.Bytes, changes-1
		forgotten = append(forgotten, r)
	}
	if entry != 0 && !j.told[top] {
		j.told[top] = true
		j.logf("capd: the history of g%d is full: its oldest changes cannot be undone any more", top)
	}
	return short(tx, forgotten)
}

// short notes at what is left of the turns of rows, which were forgotten, that a part is missing.
func short(tx *database.Tx, rows []*Row) error {
	type turn struct {
		top  int64
		name string
	}
	done := map[turn]bool{}
	for _, r := range rows {
		t := turn{r.Top(), r.Turn}
		if r.Turn == "" || done[t] {
			continue
		}
		done[t] = true
		if _, err := tx.Exec("UPDATE journal SET short=1 WHERE top=? AND turn=?", t.top, t.name); err != nil {
			return err
		}
	}
	return nil
}

// joins reports whether r can become part of before, the change of the same file before it.
func joins(before, r *Row) bool {
	return content[before.Op] && content[r.Op] && !before.Outside && !r.Outside && before.Turn == r.Turn && !before.Undoes && !r.Undoes &&
		before.Undone == 0 && r.Undone == 0 && before.Now.Kind == r.Was.Kind && before.Now.Size == r.Was.Size && !before.Lost()
}

// content has the operations that change the content of a file.
var content = map[string]bool{"replace": true, "write": true, "append": true, "truncate": true, "create": true}

// together is the operation of a change of many paths as older hosts noted it.
const together = "change"

// copied is the operation that makes a directory with everything in it, which cannot be undone either.
const copied = "copy"

// attributes is the operation that changes only attributes.
const attributes = "attributes"

// forget removes r, so that the history is incomplete.
func (j *Journal) forget(tx *database.Tx, r *Row) error {
	_, err := tx.Exec("INSERT INTO evicted(top, at) VALUES(?, ?) ON CONFLICT(top) DO UPDATE SET at=max(at, excluded.at)", r.Top(), r.AtMs)
	if err != nil {
		return err
	}
	return j.remove(tx, r)
}

// remove removes r and what is kept of it.
func (j *Journal) remove(tx *database.Tx, r *Row) error {
	if _, err := tx.Exec("DELETE FROM journal WHERE id=? AND part=?", r.ID, r.Part); err != nil {
		return err
	}
	j.counts(tx, r.Top(), -r.Bytes, -1)
	if r.Kept != "" {
		tx.OnCommit(func() { j.shelf.Remove(r.Kept) })
	}
	return nil
}

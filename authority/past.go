package authority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"capd/history"
	"capd/vfs"
	"capd/vfs/membrane"
)

// past is the history of a host as its guests see it. It implements [membrane.History].
type past struct{ host *Host }

const (
	maxPastPage = 256       // entries of a page
	maxShown    = 256 << 10 // bytes of paths of an entry
	maxPaths    = 1 << 20   // bytes of paths of a page, or of an undo
	maxHashed   = 64 << 20  // bytes that are read for the versions of a page
	maxUndone   = 1000      // rows that one undo takes
)

// who returns the grants that the holder's changes are noted for: its own, and those that it is shared from.
func (h *Host) who(at membrane.Holder) (ids []int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g := h.residents.byMeter[at.By]; g != nil; g = g.parent {
		ids = append(ids, g.id)
	}
	if len(ids) == 0 {
		return nil, vfs.Revoked
	}
	return ids, nil
}

// current returns when the history of the grant has everything that has ended.
func (r reader) current() error {
	r.host.endOf(r.top())
	return r.host.past.Flush()
}

// reader is who reads the history: a holder, or the operator.
type reader struct {
	host *Host
	ids  []int64 // of the grant, and those that it is shared from
	base string  // of the directory, from the top of the tree
	dir  vfs.Dir // through which it changes
	turn string
	may  func(ctx context.Context, path string) error // read what is at path below the directory
}

// top is the root grant.
func (r reader) top() int64 { return r.ids[len(r.ids)-1] }

func (h *Host) reader(at membrane.Holder) (r reader, err error) {
	r = reader{host: h, base: at.Path, dir: at.Dir, turn: at.Turn, may: at.MayRead}
	r.ids, err = h.who(at)
	return r, err
}

// below returns path from the directory of r on. ok says whether it is there, and may be read, perhaps with an approval.
func (r reader) below(ctx context.Context, path string) (string, bool) {
	if r.base != "" {
		var ok bool
		if path, ok = strings.CutPrefix(path, r.base+"/"); !ok {
			return "", false
		}
	}
	if err := r.may(ctx, path); err != nil && vfs.CodeOf(err) != vfs.AskDenied {
		return "", false
	}
	return path, true
}

// History implements [membrane.History].
func (p past) History(ctx context.Context, at membrane.Holder, q vfs.PastQuery) (vfs.PastPage, error) {
	r, err := p.host.reader(at)
	if err != nil {
		return vfs.PastPage{}, err
	}
	return r.history(ctx, q)
}

func (r reader) history(ctx context.Context, q vfs.PastQuery) (out vfs.PastPage, err error) {
	if err := r.current(); err != nil {
		return out, err
	}
	if q.Limit <= 0 || q.Limit > maxPastPage {
		q.Limit = maxPastPage
	}
	top := r.top()
	if out.SinceMs, err = r.host.past.Since(ctx, top); err != nil {
		return out, err
	}
	hash, bytes := int64(maxHashed), 0
	err = r.host.past.Entries(ctx, top, q.Before, func(rows []*history.Row) bool {
		e, ok := r.entry(ctx, rows, &hash)
		if !ok {
			return ctx.Err() == nil
		}
		if out.More = len(out.Entries) == q.Limit; out.More {
			return false
		}
		for _, c := range e.Changes {
			bytes += len(c.Path) + len(c.To)
		}
		if out.More = bytes > maxPaths && len(out.Entries) > 0; out.More {
			return false
		}
		out.Entries = append(out.Entries, e)
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// entry returns what the reader may know of an entry. ok says whether that is anything.
func (r reader) entry(ctx context.Context, rows []*history.Row, hash *int64) (e vfs.Past, ok bool) {
	if !rows[0].By(r.ids[0]) {
		return e, false
	}
	e = vfs.Past{ID: rows[0].Entry, Turn: rows[0].Turn, Undoes: rows[0].Undoes, UndoneBy: rows[0].Undone}
	shown := 0
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		e.AtMs = max(e.AtMs, row.AtMs)
		path, in := r.below(ctx, row.Path)
		to, toIn := "", true
		if row.To != "" {
			to, toIn = r.below(ctx, row.To)
		}
		e.Outside = e.Outside || row.Outside || !in || !toIn
		if !in && (row.To == "" || !toIn) {
			continue
		}
		e.Lost = e.Lost || row.Lost()
		if shown += len(path) + len(to); shown > maxShown && len(e.Changes) > 0 {
			e.More++
			continue
		}
		e.Changes = append(e.Changes, r.change(ctx, row, path, to, hash))
	}
	return e, len(e.Changes) > 0
}

func (r reader) change(ctx context.Context, row *history.Row, path, to string, hash *int64) vfs.PastChange {
	c := vfs.PastChange{Op: row.Op, Path: path, To: to, Kind: row.Now.Kind, Existed: !row.Was.Absent(), BytesBefore: row.Was.Size, BytesThen: row.Now.Size}
	if row.Now.Absent() {
		c.Kind = row.Was.Kind
	}
	if row.Op == membrane.OpReplace.String() && row.To == "" {
		c.Op = history.Named(row.Was, row.Now) // a put makes a file, too
	}
	if r.may(ctx, cmp.Or(to, path)) != nil { // it can be read only with an approval, and so can its versions
		return c
	}
	if row.Now.Version != "" {
		c.After, _ = vfs.ParseVersion(row.Now.Version)
	}
	if row.Was.Version != "" || row.Kept != "" && row.Was.Size <= *hash {
		if row.Was.Version == "" {
			*hash -= row.Was.Size
		}
		c.Before, _ = r.host.past.VersionOf(ctx, row) // it may not be known
	}
	return c
}

// Past implements [membrane.History].
func (p past) Past(ctx context.Context, at membrane.Holder, path string, v vfs.Version) (vfs.Content, error) {
	r, err := p.host.reader(at)
	if err != nil {
		return nil, err
	}
	return r.past(ctx, path, v)
}

func (r reader) past(ctx context.Context, path string, v vfs.Version) (vfs.Content, error) {
	if err := r.current(); err != nil {
		return nil, err
	}
	rows, err := r.host.past.Holding(ctx, r.top(), vfs.Join(r.base, path))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !row.By(r.ids[0]) || row.Kept == "" {
			continue
		}
		if is, err := r.host.past.VersionOf(ctx, row); err == nil && is == v {
			return r.host.past.Open(ctx, row)
		}
	}
	return nil, vfs.Errorf(vfs.NotFound, "the history has no such version of this; see history")
}

// Undo implements [membrane.History].
func (p past) Undo(ctx context.Context, at membrane.Holder, w vfs.Undo) (vfs.Undone, error) {
	r, err := p.host.reader(at)
	if err != nil {
		return vfs.Undone{}, err
	}
	return r.undo(ctx, w)
}

var errWhichUndo = vfs.Errorf(vfs.Invalid, "say what to undo: one id, how many of the last, one turn, or since when")

func (r reader) undo(ctx context.Context, w vfs.Undo) (out vfs.Undone, err error) {
	said := 0
	for _, is := range []bool{w.ID != 0, w.Last != 0, w.Turn != "", w.SinceMs != 0} {
		if is {
			said++
		}
	}
	if said != 1 || w.ID < 0 || w.Last < 0 || w.SinceMs < 0 {
		return out, errWhichUndo
	}
	if err := r.current(); err != nil {
		return out, err
	}
	rows, err := r.chosen(ctx, w)
	if err != nil {
		return out, err
	}
	return r.undoRows(ctx, rows, w.DryRun)
}

var errShort = vfs.Errorf(vfs.NotFound, "the oldest changes of this turn are not kept any more; undo the others by their ids, which history shows")

// chosen returns the rows that w names, the newest first.
func (r reader) chosen(ctx context.Context, w vfs.Undo) (rows []*history.Row, err error) {
	entries, bytes, enough := 0, 0, false
	var refused error
	hash := int64(0)
	top := r.top()
	since, err := r.host.past.Since(ctx, top)
	if err != nil {
		return nil, err
	}
	if w.SinceMs != 0 && w.SinceMs <= since {
		return nil, vfs.Errorf(vfs.NotFound, "the history is not complete since then; history says since when it is")
	}
	err = r.host.past.Entries(ctx, top, 0, func(entry []*history.Row) bool {
		e, visible := r.entry(ctx, entry, &hash)
		if !visible {
			return true
		}
		take := false
		switch {
		case w.ID != 0:
			take, enough = e.ID == w.ID, e.ID <= w.ID
			if take && e.UndoneBy != 0 {
				refused = vfs.Errorf(vfs.Conflict, "it was undone already, by %d", e.UndoneBy)
			}
		case w.Last != 0:
			take = !e.Undoes && e.UndoneBy == 0
		case w.Turn != "":
			take = e.Turn == w.Turn && e.UndoneBy == 0 && !e.Undoes
		default:
			take = e.AtMs >= w.SinceMs
			enough = !take
		}
		for _, row := range entry {
			if take {
				bytes += len(row.Path) + len(row.To)
			}
			if take && w.Turn != "" && row.Short {
				refused = errShort
			}
		}
		if take {
			rows = append(rows, entry...)
			entries++
		}
		if len(rows) > maxUndone || bytes > maxPaths {
			refused = vfs.Errorf(vfs.Limit, "one undo takes at most %d changes; undo the last ones first", maxUndone)
		}
		return !enough && refused == nil && (w.Last == 0 || entries < w.Last)
	})
	if err == nil && refused == nil && w.SinceMs != 0 {
		rows, err = r.effective(ctx, rows)
	}
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	case len(rows) == 0 && since != 0:
		return nil, vfs.Errorf(vfs.NotFound, "the history has no such change; of what was changed until %s the oldest is not kept any more. The host's configuration says how much is kept: history: {bytes, changes, keep, total}",
			time.UnixMilli(since).UTC().Format(time.RFC3339))
	case len(rows) == 0:
		return nil, vfs.Errorf(vfs.NotFound, "the history has no such change; see history")
	}
	return rows, nil
}

// effective returns rows without the undos all of whose entries are among rows, and without these entries: together they changed nothing.
func (r reader) effective(ctx context.Context, rows []*history.Row) ([]*history.Row, error) {
	undone := map[int64]map[int64]bool{} // undo -> what it undid
	for _, row := range rows {
		if row.Undone != 0 {
			if undone[row.Undone] == nil {
				undone[row.Undone] = map[int64]bool{}
			}
			undone[row.Undone][row.Entry] = true
		}
	}
	all, err := r.host.past.Undone(ctx, r.top())
	if err != nil {
		return nil, err
	}
	idle := map[int64]bool{}
	for by, entries := range undone {
		idle[by] = all[by] == len(entries)
	}
	return slices.DeleteFunc(rows, func(row *history.Row) bool { return idle[row.Entry] || idle[row.Undone] }), nil
}

// undoRows undoes rows, the newest first.
func (r reader) undoRows(ctx context.Context, rows []*history.Row, dry bool) (out vfs.Undone, err error) {
	for _, row := range rows {
		if len(out.Entries) == 0 || out.Entries[len(out.Entries)-1] != row.Entry {
			out.Entries = append(out.Entries, row.Entry)
		}
	}
	h := r.host
	release, err := h.past.Hold(r.top(), out.Entries)
	if err != nil {
		return out, err
	}
	defer release()
	plan, err := h.past.Plan(ctx, r.dir, r.base, rows, func(path string) error { return r.may(ctx, path) })
	if err != nil {
		return out, err
	}
	for _, s := range plan.Steps {
		out.Steps = append(out.Steps, vfs.UndoStep{Op: s.Show(), Path: s.Path, To: s.To, Err: s.Err})
	}
	if dry {
		return out, nil
	}
	if err := plan.Conflicts(); err != nil {
		return out, err
	}
	group := &undoing{holders: r.ids, turn: r.turn}
	defer group.end()
	made, err := plan.Make(context.WithValue(ctx, undoingKey{}, group))
	if err != nil {
		return out, halted(plan, made, group.entry == 0 || r.takeBack(ctx, group), err)
	}
	out.ID = group.entry
	return out, h.past.Mark(rows, group.entry)
}

// halted returns err, of the step after those that were made, and says what became of these.
func halted(plan *history.Plan, made int, back bool, err error) error {
	if back && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	what := "nothing was undone"
	if !back {
		what = fmt.Sprintf("of %d steps only the first %d were made, and could not be taken back; history shows them, and capd undo takes them back", len(plan.Steps), made)
	}
	return vfs.At(plan.Steps[made].Path, vfs.Errorf(vfs.CodeOf(err), "%s; %s", vfs.Message(err), what))
}

// takeBack takes back the changes of an undo that was not made whole, and reports whether it could. What cannot be taken back stays, and is in
// the history.
func (r reader) takeBack(ctx context.Context, group *undoing) bool {
	ctx = context.WithoutCancel(ctx)
	if r.current() != nil {
		return false
	}
	var rows []*history.Row
	err := r.host.past.Entries(ctx, r.top(), 0, func(entry []*history.Row) bool {
		if entry[0].Entry == group.entry {
			rows = append(rows, entry...)
		}
		return entry[0].Entry > group.entry
	})
	if err != nil || len(rows) != group.rows {
		return false // not all of it could be kept
	}
	if len(rows) == 0 {
		return true
	}
	plan, err := r.host.past.Plan(ctx, r.dir, r.base, rows, func(string) error { return nil })
	if err != nil || plan.Refused {
		return false
	}
	back := &undoing{holders: r.ids, turn: r.turn}
	defer back.end()
	if _, err := plan.Make(context.WithValue(ctx, undoingKey{}, back)); err != nil {
		return false
	}
	_ = r.host.past.Mark(rows, back.entry) // without the mark it is shown as an undo that can be undone
	return true
}

package feed

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Changes implements [membrane.Feed]. Before it answers it makes sure that it knows of everything that happened before.
func (f *Feed) Changes(ctx context.Context, at membrane.Holder, q vfs.ChangesQuery) (page vfs.ChangesPage, err error) {
	from, known, err := f.read(q.Cursor, at.Path)
	if err != nil {
		return page, err
	}
	late := time.Now().Add(min(max(q.Wait, 0), vfs.MaxChangesWait))
	w := &waiter{path: at.Path, ch: make(chan struct{}, 1)}
	f.mu.Lock()
	f.waiting.add(w)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.waiting.remove(w)
		f.mu.Unlock()
	}()
	for {
		in, err := f.enter(ctx, at.Path, at.By)
		if err != nil {
			return page, err
		}
		r := reading{f: f, at: at, others: q.Others, young: time.Now().Add(-settled)}
		err = f.sync(ctx, in)
		if err == nil {
			r.read(ctx, in, from, known)
		}
		f.leave(in)
		switch {
		case vfs.CodeOf(err) == vfs.Stale: // it is watched no more; what happened meanwhile may have been missed
			f.renew(in)
			if err := ctx.Err(); err != nil {
				return page, context.Cause(ctx)
			}
			known = false
			continue
		case err != nil:
			return page, cause(ctx, err)
		}
		now := time.Now()
		wait := late.Sub(now)
		some := !r.oldest.IsZero()
		if some {
			wait = r.oldest.Add(Coalesced).Sub(now)
			if len(r.page.Events) == 0 {
				wait = max(wait, settled)
			}
		}
		if r.page.Rescan || r.full || wait <= 0 {
			r.page.Cursor = f.cursor(r.last, at.Path)
			return r.page, nil
		}
		if !some {
			from = r.last
		}
		if err := pause(ctx, w, wait, some); err != nil {
			return page, err
		}
		if err := at.Stands(ctx); err != nil {
			return page, err
		}
	}
}

// cause returns why ctx has ended, if it has, or err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pause waits, and gives up meanwhile what other calls want. It ends early for an event, unless there are some already.
func pause(ctx context.Context, w *waiter, d time.Duration, some bool) error {
	woken := w.ch
	if some {
		woken = nil
	}
	err := vfs.Aside(ctx, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
		}
	})
	return cause(ctx, err)
}

// reading makes a page.
type reading struct {
	f      *Feed
	at     membrane.Holder
	others bool

	page   vfs.ChangesPage
	last   int64     // the newest event that was looked at
	full   bool      // there are more
	oldest time.Time // when the first happened, also if it is too young to be told
	young  time.Time // what happened since is; by then everything before was known
	bytes  int
	merged map[string]int // where the event of a path is, to which another can be added
	over   int            // how many events were added to later ones; they have no path
}

// read reads what happened after the event from.
func (r *reading) read(ctx context.Context, in *interest, from int64, known bool) {
	f := r.f
	f.mu.Lock()
	first := in.since
	for _, other := range f.above(in.path) { // a directory above may have been watched for longer
		if other.since != 0 && other.complete && other.since < first {
			first = other.since
		}
	}
	first = max(first, f.first-1)
	r.last, r.page.Complete = f.seq, in.complete
	if r.page.Rescan = !known || from < first; r.page.Rescan {
		f.mu.Unlock()
		return
	}
	i := sort.Search(len(f.events), func(i int) bool { return f.events[i].seq > from })
	some := f.events[i:len(f.events):len(f.events)]
	var mine []event
	for _, ev := range some {
		if diff.Within(ev.path, in.path) || ev.from != "" && diff.Within(ev.from, in.path) {
			mine = append(mine, ev)
		}
	}
	f.mu.Unlock()
	r.merged = map[string]int{}
	ids := map[*meter.Meter]string{}
	for _, ev := range mine {
		e, ok := r.shown(ctx, ev, ids)
		if !ok {
			continue
		}
		if !r.add(e, ev) {
			break
		}
	}
	r.page.Events = slices.DeleteFunc(r.page.Events, func(e vfs.Event) bool { return e.Path == "" })
}

// shown returns what the holder is told of ev.
func (r *reading) shown(ctx context.Context, ev event, ids map[*meter.Meter]string) (e vfs.Event, ok bool) {
	e = vfs.Event{Kind: ev.kind, AtMs: ev.at.UnixMilli(), Own: ev.by != nil && ev.by == r.at.By}
	if e.Own && r.others {
		return e, false
	}
	to, toShows := r.below(ctx, ev.path)
	from, fromShows := "", false
	if ev.kind == vfs.Moved {
		from, fromShows = r.below(ctx, ev.from)
	}
	switch {
	case toShows && fromShows:
		e.Path, e.From = to, from
	case toShows:
		if e.Path = to; ev.kind == vfs.Moved {
			e.Kind = vfs.Created
		}
	case fromShows:
		e.Path, e.Kind = from, vfs.Removed
	default:
		return e, false
	}
	if ev.by != nil && !e.Own && r.at.By != nil && r.f.o.Share != nil {
		id, known := ids[ev.by]
		if !known {
			id = r.f.o.Share(r.at.By, ev.by)
			ids[ev.by] = id
		}
		e.By = id
	}
	return e, true
}

// below returns path from the holder's directory, and whether the holder may be told of it.
func (r *reading) below(ctx context.Context, path string) (string, bool) {
	if r.at.Path != "" {
		var ok bool
		if path, ok = strings.CutPrefix(path, r.at.Path+"/"); !ok {
			return "", false
		}
	}
	return path, path != "" && r.at.MayWatch(ctx, path) == nil
}

// add adds e to the page. It reports false if the page ends before e.
func (r *reading) add(e vfs.Event, ev event) bool {
	if r.oldest.IsZero() {
		r.oldest = ev.at
	}
	if ev.at.After(r.young) {
		r.last = ev.seq - 1
		return false
	}
	i, again := r.merged[e.Path]
	if again = again && e.Kind != vfs.Moved; again { // the later place counts: what happened between was before the last
		was := &r.page.Events[i]
		if e.Kind == vfs.Changed && was.Kind != vfs.Removed {
			e.Kind = was.Kind
		}
		if e.By != was.By || e.Own != was.Own {
			e.By, e.Own = "", false
		}
		was.Path = ""
		r.over++
	} else {
		r.bytes += len(e.Path) + len(e.From)
		if len(r.page.Events)-r.over == pageEvents || r.bytes > pageBytes && len(r.page.Events) > 0 {
			r.full, r.last = true, ev.seq-1
			return false
		}
	}
	if e.Kind == vfs.Moved { // what was at either path before is another thing
		clear(r.merged)
	} else {
		r.merged[e.Path] = len(r.page.Events)
	}
	r.page.Events = append(r.page.Events, e)
	return true
}

// above returns the interests in directories above path. Needs mu.
func (f *Feed) above(path string) (all []*interest) {
	for path != "" {
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
		if in := f.interests[path]; in != nil {
			all = append(all, in)
		}
	}
	return all
}

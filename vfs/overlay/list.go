package overlay

import (
	"context"
	"iter"
	"slices"
	"strings"

	"capd/vfs"
)

// List implements vfs.Dir. The overlay's own entries are those at the beginning of the
// iteration.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return d.ListFrom(ctx, "") }

// ListFrom implements vfs.FromLister.
func (d *dir) ListFrom(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		l := &listing{d: d, from: from, yield: func(e vfs.Entry) bool { return yield(e, nil) }}
		if err := l.run(ctx); err != nil {
			yield(vfs.Entry{}, err)
		}
	}
}

// listing is one iteration over a directory. It merges the overlay's own entries with
// those of the lower directory, both in byte order.
type listing struct {
	d     *dir
	yield func(vfs.Entry) bool

	own  []ownEntry // sorted by name
	next int        // index in own of the next entry

	from string // names before it are not wanted
	last string // the last name that the lower directory yielded
	over bool   // no more is wanted, or late says why there is none
	late error
}

// ownEntry is an entry of the overlay itself.
type ownEntry struct {
	vfs.Entry
	moved bool // it reads through, and may no longer exist in the lower tree
}

func byName(e ownEntry, name string) int { return strings.Compare(e.Name, name) }

// ours reports whether the overlay itself has an entry called name.
func (l *listing) ours(name string) bool {
	_, ok := slices.BinarySearchFunc(l.own, name, byName)
	return ok
}

func (l *listing) run(ctx context.Context) error {
	path, below, stands, err := l.begin(ctx)
	if err != nil {
		return err
	}
	if below {
		err := l.d.beneath(ctx, path, stands, func(n vfs.Node) error { return l.merge(ctx, n) })
		if l.over {
			return l.late
		}
		if err != nil && !(stands && (missing(err) || replaced(err))) {
			return err
		}
	}
	l.emit(ctx, "", true)
	return l.late
}

// begin notes the overlay's entries, and returns which lower directory is read through.
func (l *listing) begin(ctx context.Context) (path string, below, stands bool, err error) {
	path, below, stands, err = l.note(ctx)
	slices.SortFunc(l.own, func(a, b ownEntry) int { return byName(a, b.Name) })
	return path, below, stands, err
}

// note is begin without sorting: readers and writers wait for it.
func (l *listing) note(ctx context.Context) (path string, below, stands bool, err error) {
	if err := l.d.o.look(ctx); err != nil {
		return "", false, false, err
	}
	defer l.d.o.mu.RUnlock()
	here, err := l.d.here()
	if err != nil {
		return "", false, false, err
	}
	if here.standing > 0 {
		l.own = make([]ownEntry, 0, here.standing)
		for name, n := range here.children {
			if n.stood && name >= l.from {
				l.own = append(l.own, ownEntry{vfs.Entry{Name: name, Kind: n.kind}, n.below && n.kind != vfs.DirKind})
			}
		}
	}
	return here.origin, here.below, here.holds(), nil
}

// merge yields the entries of the lower directory n, and before each the overlay's
// entries that precede it. It may be called again when n went stale midway.
func (l *listing) merge(ctx context.Context, n vfs.Node) error {
	lower, ok := n.(vfs.Dir)
	if !ok {
		return nil
	}
	for e, err := range vfs.ListFrom(ctx, lower, max(l.from, l.last)) {
		if err != nil {
			return err
		}
		if e.Name <= l.last { // it was yielded already
			continue
		}
		l.last = e.Name
		l.emit(ctx, e.Name, false)
		if !l.over && !l.ours(e.Name) {
			l.over = !l.yield(e)
		}
		if l.over {
			return nil
		}
	}
	return nil
}

// emit yields the overlay's entries before the name end, or all.
func (l *listing) emit(ctx context.Context, end string, all bool) {
	for !l.over && l.next < len(l.own) && (all || l.own[l.next].Name < end) {
		e := l.own[l.next]
		l.next++
		if l.late = ctx.Err(); l.late == nil && e.moved {
			e.Kind, l.late = l.kind(ctx, e.Name)
		}
		l.over = l.late != nil || e.Kind != gone && !l.yield(e.Entry)
	}
}

// kind returns the kind of the node called name now.
func (l *listing) kind(ctx context.Context, name string) (vfs.Kind, error) {
	s, err := l.d.see(ctx, name)
	s.close()
	return s.kind, err
}

// Any implements vfs.Searcher.
func (d *dir) Any(ctx context.Context, is func(vfs.Entry) bool) (bool, error) {
	l := &listing{d: d}
	path, below, stands, err := l.begin(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range l.own {
		if e.moved {
			if e.Kind, err = l.kind(ctx, e.Name); err != nil {
				return false, err
			}
		}
		if err := ctx.Err(); err != nil || e.Kind != gone && is(e.Entry) {
			return err == nil, err
		}
	}
	if !below {
		return false, nil
	}
	some := false
	err = d.beneath(ctx, path, stands, func(n vfs.Node) error {
		lower, ok := n.(vfs.Dir)
		if !ok {
			return nil
		}
		some, err = vfs.Any(ctx, lower, func(e vfs.Entry) bool {
			return !l.ours(e.Name) && is(e)
		})
		return err
	})
	if stands && (missing(err) || replaced(err)) {
		err = nil
	}
	return some && err == nil, err
}

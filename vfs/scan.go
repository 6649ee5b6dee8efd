package vfs

import "context"

// Scanner is a Dir that can list several of its directories in one call, without
// opening each. It is for searches, which list many directories once.
type Scanner interface {
	// Scan lists the directories called names, and calls found for each, in the order
	// of names. entries are what List of that directory would yield; the callee may
	// keep them. ok is false if the directory has more than most entries or could not
	// be listed. Scan skips names that policy withholds. If the directory itself fails,
	// Scan returns an error and calls found for none.
	Scan(ctx context.Context, names []string, most int, found func(name string, entries []Entry, ok bool)) error
}

var errNoScan = Errorf(Unsupported, "this store lists one directory at a time")

// scan calls d.Scan. It answers unsupported when d is not a [Scanner].
func scan(ctx context.Context, d Dir, names []string, most int, found func(string, []Entry, bool)) error {
	if s, ok := d.(Scanner); ok {
		return s.Scan(ctx, names, most, found)
	}
	return errNoScan
}

// Scan implements [Scanner]. It leaves out what is withheld, and answers nothing if the
// right to read is revoked meanwhile. It is unsupported if a guard runs around reads,
// since such a guard must be asked about each directory.
func (v *dirView) Scan(ctx context.Context, names []string, most int, found func(string, []Entry, bool)) error {
	if len(v.world.readArounds) > 0 {
		return errNoScan
	}
	if err := v.may(ctx, noRead); err != nil {
		return err
	}
	seen := make([]string, 0, len(names))
	for _, name := range names {
		if path, err := v.child(name, CheckName); err == nil && v.shows(ctx, path, v.rules.step(name)) {
			seen = append(seen, name)
		}
	}
	return v.world.within(ctx, func(ctx context.Context) error {
		return v.scan(ctx, seen, most, found)
	})
}

// scan is Scan for names that are visible.
func (v *dirView) scan(ctx context.Context, names []string, most int, found func(string, []Entry, bool)) error {
	return scan(ctx, v.dir, names, most, func(name string, entries []Entry, ok bool) {
		r := v.rules.step(name)
		if !v.shows(ctx, Join(v.path, name), r) {
			found(name, nil, false)
			return
		}
		kept := entries[:0]
		for _, e := range entries {
			if !v.world.hidesIn(r, e.Name) {
				kept = append(kept, e)
			}
		}
		found(name, kept, ok)
	})
}

// shows reports whether path, below v, with the rules r, may be read now. A route at
// path itself counts too.
func (v *dirView) shows(ctx context.Context, path string, r rules) bool {
	return target{view: &v.view, path: path, rules: r, need: noRead}.refused(ctx) == nil
}

// Scan implements [Scanner] for directories of one tree with no mount below.
func (d *nsDir) Scan(ctx context.Context, names []string, most int, found func(string, []Entry, bool)) error {
	p, err := d.now()
	if err != nil {
		return err
	}
	if p.dir == nil || p.at != nil {
		return errNoScan
	}
	return p.dir.Scan(ctx, names, most, found)
}

// Searcher is a Dir that can look for an entry without listing everything.
type Searcher interface {
	// Any reports whether is returns true for some entry that List would yield. It asks
	// in any order and stops at the first. is must be quick and must not use the store.
	Any(ctx context.Context, is func(Entry) bool) (bool, error)
}

// Any reports whether is returns true for some entry of d; see [Searcher].
func Any(ctx context.Context, d Dir, is func(Entry) bool) (bool, error) {
	if s, ok := d.(Searcher); ok {
		return s.Any(ctx, is)
	}
	for e, err := range d.List(ctx) {
		if err != nil {
			return false, err
		}
		if is(e) {
			return true, nil
		}
	}
	return false, nil
}

// Any implements [Searcher]. It leaves out what is withheld.
func (v *dirView) Any(ctx context.Context, is func(Entry) bool) (found bool, err error) {
	err = v.look(ctx, OpList, func(ctx context.Context) error {
		return v.world.within(ctx, func(ctx context.Context) error {
			found, err = Any(ctx, v.dir, func(e Entry) bool { return !v.world.hidesIn(v.rules, e.Name) && is(e) })
			return err
		})
	})
	return found && err == nil, err
}

// Any implements [Searcher].
func (d *nsDir) Any(ctx context.Context, is func(Entry) bool) (bool, error) {
	p, err := d.now()
	if err != nil {
		return false, err
	}
	if p.at != nil {
		for _, name := range p.at.names {
			if is(Entry{name, DirKind}) {
				return true, nil
			}
		}
	}
	if p.dir == nil {
		return false, nil
	}
	return Any(ctx, p.dir, func(e Entry) bool { return p.mounted(e.Name) == nil && is(e) })
}

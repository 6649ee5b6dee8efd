package vfs

import "context"

// Scanner is a Dir that lists directories in it, several at once, without their
// being opened first: for who searches a tree and most of what he lists is never used
// again.
type Scanner interface {
	// Scan calls found for each of names, in their order, but for those that may not be
	// named, with what List of the
	// directory called so would yield, unless these are more than most entries or it
	// could not tell: then with ok false, and an error that Lookup may or may not give
	// too. entries are the caller's. An error of Scan is one of the directory itself,
	// and found was called for none.
	Scan(ctx context.Context, names []string, most int, found func(name string, entries []Entry, ok bool)) error
}

var errNoScan = Errorf(Unsupported, "this store lists one directory at a time")

// scan is Scan of d, and unsupported when it is no [Scanner].
func scan(ctx context.Context, d Dir, names []string, most int, found func(string, []Entry, bool)) error {
	if s, ok := d.(Scanner); ok {
		return s.Scan(ctx, names, most, found)
	}
	return errNoScan
}

// Scan implements [Scanner]. What is withheld is not told, and nothing is when the
// right to it went meanwhile. A guard that stands around what looks is asked about
// each directory by itself, which is not here.
func (v *dirView) Scan(ctx context.Context, names []string, most int, found func(string, []Entry, bool)) error {
	if len(v.world.looks) > 0 {
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

// scan is Scan for names that may be looked at.
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

// shows reports whether what is at path, below v, where the rules are r, may be looked
// at now: on its own route too.
func (v *dirView) shows(ctx context.Context, path string, r rules) bool {
	return target{view: &v.view, path: path, rules: r, need: noRead}.refused(ctx) == nil
}

// Scan implements [Scanner], for what lies in one tree with no mount below.
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

// Searcher is a Dir that can be searched without all of it being read.
type Searcher interface {
	// Any reports whether is holds for some entry that List would yield. It asks in no
	// order, and stops at the first. is must be quick and not use the store.
	Any(ctx context.Context, is func(Entry) bool) (bool, error)
}

// Any reports whether is holds for some entry of d, as [Searcher] says.
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

// Any implements [Searcher]. What is withheld is not asked about.
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

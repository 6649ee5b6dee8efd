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

// Scan calls d.Scan. It answers unsupported when d is not a [Scanner].
func Scan(ctx context.Context, d Dir, names []string, most int, found func(string, []Entry, bool)) error {
	if s, ok := d.(Scanner); ok {
		return s.Scan(ctx, names, most, found)
	}
	return Errorf(Unsupported, "this store lists one directory at a time")
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

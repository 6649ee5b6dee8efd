package membrane

import (
	"context"
	"strings"

	"capd/vfs"
)

// Scan implements [vfs.Scanner]. It leaves out what is withheld, and answers nothing if the
// right to list is revoked meanwhile. It is unsupported if a guard runs around reads,
// since such a guard must be asked about each directory.
func (v *dirView) Scan(ctx context.Context, names []string, most int, found func(string, []vfs.Entry, bool)) error {
	if len(v.guards.readArounds) > 0 {
		return vfs.Unsupported
	}
	if err := v.may(ctx, noList); err != nil {
		return err
	}
	seen := make([]string, 0, len(names))
	for _, name := range names {
		if path, err := v.child(name, vfs.CheckName); err == nil && v.shows(ctx, path, v.standing().step(name)) {
			seen = append(seen, name)
		}
	}
	return v.guards.within(ctx, func(ctx context.Context) error {
		return v.scan(ctx, seen, most, found)
	})
}

// scan is Scan for names that are visible.
func (v *dirView) scan(ctx context.Context, names []string, most int, found func(string, []vfs.Entry, bool)) error {
	return vfs.Scan(ctx, v.dir, names, most, func(name string, entries []vfs.Entry, ok bool) {
		r := v.standing().step(name)
		if !v.shows(ctx, vfs.Join(v.path, name), r) {
			found(name, nil, false)
			return
		}
		kept := entries[:0]
		for _, e := range entries {
			if !v.guards.skips(r, e.Name) {
				kept = append(kept, e)
			}
		}
		if ok {
			v.noteScan(vfs.Join(v.path, name), r)
		}
		found(name, kept, ok)
	})
}

// shows reports whether path, below v, with the rules r, may be listed now. A route at
// path itself counts too.
func (v *dirView) shows(ctx context.Context, path string, r *rules) bool {
	return target{view: &v.view, path: path, rules: r, need: noList}.refused(ctx) == nil
}

// Any implements [vfs.Searcher]. It leaves out what is withheld.
func (v *dirView) Any(ctx context.Context, is func(vfs.Entry) bool) (found bool, err error) {
	err = v.look(ctx, OpList, func(ctx context.Context) error {
		v.note(OpList)
		return v.guards.within(ctx, func(ctx context.Context) error {
			found, err = vfs.Any(ctx, v.dir, func(e vfs.Entry) bool { return !v.guards.skips(v.standing(), e.Name) && is(e) })
			return err
		})
	})
	return found && err == nil, err
}

// Lists reports whether a listing shows name if it is there, as far as guards and policy
// decide. A search for a known name asks it, since it does not list.
func (v *dirView) Lists(name string) bool { return !v.guards.skips(v.standing(), name) }

// Readable returns a function that reports whether entries of the directory at path below
// v may be shown. It asks the gates each time. A search calls it for every entry.
func (v *dirView) Readable(path string) func() error {
	at := v.path
	if path != "" {
		at = vfs.Join(v.path, path)
	}
	b, r := v.bindAt(at), v.standing()
	if path != "" {
		r = r.walk(strings.Split(path, "/"))
	}
	return func() error {
		if !b.holds() {
			b = v.bindAt(at)
		}
		if err := (b.mode() | v.mask).refuse(noList); err != nil || v.guards.policy == nil {
			return err
		}
		r = v.guards.current(r, at)
		return r.refuse(noList, Asks)
	}
}

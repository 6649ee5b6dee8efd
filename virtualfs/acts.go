package virtualfs

import (
	"context"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// act is something that an operator does, and its place in the record.
type act struct {
	id  string
	end func(error) // nil: it has not begun

	fs   *FS // that it changes; nil if it has not begun
	path string
}

// begin writes what is about to be done. It changes nothing if nothing is recorded.
func (a *act) begin(fs *FS, what operator.Act) (err error) {
	a.fs, a.path = fs, what.Path
	if fs.o.Record == nil || a.end != nil {
		return nil
	}
	a.id, a.end, err = fs.o.Record(what)
	return err
}

// ended writes how it ended, if it had begun.
func (a *act) ended(err error) {
	if a.fs != nil && a.fs.changed != nil {
		a.fs.changed(a.path)
	}
	if a.end != nil {
		a.end(err)
	}
}

// recorded reports whether what is done to fs is recorded.
func (fs *FS) recorded() bool { return fs.o.Record != nil }

// changes returns what waits in m at and below paths.
func (m *mount) changes(ctx context.Context, paths []string) (all []diff.Change, err error) {
	if m.overlay != nil {
		if all, err = m.overlay.Diff(ctx, ""); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 && m.store.Own != nil {
		err = m.store.Own.Diff(ctx, "", "", func(c diff.Change, _ Text) bool {
			all = append(all, c)
			return true
		})
	}
	return chosenOf(all, paths), err
}

// chosenOf returns the changes at and below paths.
func chosenOf(all []diff.Change, paths []string) (some []diff.Change) {
	for _, c := range all {
		if chosen(paths, c) {
			some = append(some, c)
		}
	}
	return some
}

// Sync implements [operator.Tree].
func (t *openTree) Sync(ctx context.Context, progress operator.Progress) (n int, skipped []diff.Skipped, err error) {
	var a act
	if t.fs.recorded() {
		what := operator.Act{Op: "sync", Path: t.path}
		if l, ok := t.Tree.(interface {
			List(context.Context) ([]diff.Change, error)
		}); ok {
			if what.Changes, err = l.List(ctx); err != nil {
				return 0, nil, err
			}
		}
		if err := a.begin(t.fs, what); err != nil {
			return 0, nil, err
		}
	}
	call := vfs.CallOf(ctx)
	call.Change = a.id
	n, skipped, err = t.Tree.Sync(vfs.WithCall(ctx, call), progress)
	a.ended(err)
	return n, skipped, err
}

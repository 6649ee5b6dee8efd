package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// Committer changes a lower tree in that tree's own way, all or nothing.
type Committer interface {
	// Stage does the slow part of the work in advance, such as copying contents. It changes
	// nothing in the lower tree. The overlay may change meanwhile: Stage leaves out what it
	// no longer finds.
	Stage(context.Context, []diff.Change) error
	// Prepare does the rest, and returns commit, which changes the lower tree to what the
	// overlay shows. The overlay does not change during Prepare and commit. commit runs
	// inside vfs.Commit, and nobody reads the overlay while it runs.
	Prepare(context.Context, []diff.Change) (commit func() error, err error)
}

// Commit has c change the lower tree to what the overlay shows, all or nothing.
// Afterwards the overlay reads through. Directories that the lower tree then lacks,
// since it keeps none without files, stay as changes. c gets all changes as Diff returns
// them, with the Content of new files. check, if not nil, gets them as Files would.
//
// Commit answers *diff.Conflicts with all paths at which both sides changed, and any
// error of c or check. Nothing has changed then.
func (o *Overlay) Commit(ctx context.Context, c Committer, check func([]diff.Change) error) error {
	s := o.snapshot()
	ahead, err := s.changes(ctx)
	s.close()
	if err == nil {
		err = c.Stage(ctx, ahead)
	}
	if err != nil {
		return err
	}
	return o.unchanged(ctx, func(s *snapshot) error {
		if err := s.checked(ctx, check); err != nil {
			return err
		}
		changes, err := s.changes(ctx)
		if err != nil {
			return err
		}
		if err := s.agrees(ctx); err != nil {
			return err
		}
		commit, err := c.Prepare(ctx, changes)
		if err != nil {
			return err
		}
		return o.commit(ctx, s, changes, commit)
	})
}

// checked runs check, if it is not nil, on the changes as Files returns them.
func (s *snapshot) checked(ctx context.Context, check func([]diff.Change) error) error {
	if check == nil {
		return nil
	}
	d, err := s.files(ctx)
	if err != nil {
		return err
	}
	return check(d.changes)
}

// changes is diff with the Content of new files.
func (s *snapshot) changes(ctx context.Context) ([]diff.Change, error) {
	all, err := s.diff(ctx, "")
	for i, c := range all {
		if c.Is.Kind == vfs.FileKind {
			all[i].Content = s.o.content(c.Path)
		}
	}
	return all, err
}

// commit runs commit, and then edits the overlay.
func (o *Overlay) commit(ctx context.Context, s *snapshot, changes []diff.Change, commit func() error) error {
	lacks := s.lacks(inside(context.WithoutCancel(ctx)))
	return o.carryOut(ctx, s, &selection{all: true}, changes, lacks, func(lock func()) error {
		return vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
			lock()
			return vfs.Effect{}, commit()
		})
	})
}

// agrees answers *diff.Conflicts for the paths at which both the overlay and the lower
// tree changed.
func (s *snapshot) agrees(ctx context.Context) error {
	var clashes []diff.Conflict
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		b := s.bases[path]
		if b.moved {
			continue
		}
		is, wanted, err := s.both(ctx, path)
		if err != nil {
			return err
		}
		if is != b.state && is != wanted && wanted != b.state {
			clashes = append(clashes, diff.Conflict{Path: path, Was: b.state, Becomes: wanted, Is: is,
				Why: "the tree below changed here since; revert the change here, or make it again"})
		}
	}
	if clashes == nil {
		return nil
	}
	return &diff.Conflicts{Paths: clashes}
}

// lacks returns a function that reports whether the lower tree has no directory at a
// path.
func (s *snapshot) lacks(ctx context.Context) func(path string) bool {
	return func(path string) bool {
		is, err := s.lowerState(ctx, path)
		return err == nil && is.Kind != vfs.DirKind
	}
}

func nothing(string) bool { return false }

// Idle calls do, unless the overlay has changes or is about to get one. It gets none
// until do returns. Directories without files do not count. Idle does not wait.
func (o *Overlay) Idle(do func()) {
	select {
	case o.turn <- struct{}{}:
	default:
		return
	}
	defer o.end()
	if o.isIdle() {
		do()
	}
}

func (o *Overlay) isIdle() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, b := range o.bases {
		if b.moved || !b.state.Absent() {
			return false
		}
	}
	return !o.root.holdsChanges()
}

// holdsChanges reports whether something in n is not as in the lower tree, apart from
// new directories.
func (n *node) holdsChanges() bool {
	for _, c := range n.children {
		if !c.through() && (c.kind != vfs.DirKind || c.below) || c.holdsChanges() {
			return true
		}
	}
	return false
}

package virtualfs

import (
	"context"
	"errors"
	"slices"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/overlay"
)

var errNoChanges = vfs.Errorf(vfs.Unsupported, "this mount keeps no changes: a write takes effect at once; mount it with overlay: to review changes first")

// Diff implements [operator.VirtualFs].
func (fs *FS) Diff(ctx context.Context, path string, o operator.DiffOptions, after string, yield func(diff.Change) bool) (operator.Review, error) {
	m, err := fs.at(path)
	if err != nil {
		return operator.Review{}, err
	}
	if err := checkPaths(o.Paths); err != nil {
		return operator.Review{}, err
	}
	revisions := o.From != "" || o.To != ""
	if after == "" && !revisions && (m.overlay != nil || m.store.Own != nil) {
		if err := m.known(ctx, o.Paths); err != nil {
			return operator.Review{}, inMount(path, err)
		}
	}
	wanted := func(c diff.Change) bool { return c.Path > after && chosen(o.Paths, c) }
	switch {
	case m.overlay != nil && !revisions:
		all, patch, err := m.patch(ctx, o.Text)
		if err != nil {
			return operator.Review{}, vfs.At(path, err)
		}
		review := reviewOf(all, o.Paths)
		if len(all) == 0 && m.store.Own != nil {
			return fs.diffOwn(ctx, m, o, wanted, yield)
		}
		return review, m.diffOverlay(ctx, all, patch, wanted, yield)
	case m.store.Own != nil:
		return fs.diffOwn(ctx, m, o, wanted, yield)
	case revisions:
		return operator.Review{}, vfs.At(path, vfs.Errorf(vfs.Unsupported, "only a git mount has revisions to compare"))
	}
	return operator.Review{}, vfs.At(path, errNoChanges)
}

// patch returns the changes in m's overlay, with their text if it is asked for.
func (m *mount) patch(ctx context.Context, text bool) (all []diff.Change, p *overlay.Patch, err error) {
	if text {
		return m.overlay.Patch(ctx)
	}
	all, err = m.overlay.Diff(ctx, "")
	return all, nil, err
}

// diffOverlay is Diff of m's overlay.
func (m *mount) diffOverlay(ctx context.Context, all []diff.Change, patch *overlay.Patch, wanted, yield func(diff.Change) bool) (err error) {
	for _, c := range all {
		if !wanted(c) {
			continue
		}
		if patch != nil {
			if c.Text, c.Lacks, err = patch.Text(ctx, c); err != nil {
				return vfs.At(vfs.Join(m.Path, c.Path), err)
			}
		}
		if !yield(c) {
			return nil
		}
	}
	return nil
}

// diffOwn is Diff of the changes in m's store itself.
func (fs *FS) diffOwn(ctx context.Context, m *mount, o operator.DiffOptions, wanted, yield func(diff.Change) bool) (operator.Review, error) {
	var all []diff.Change
	var late error
	more := true
	err := m.store.Own.Diff(ctx, o.From, o.To, func(c diff.Change, text Text) bool {
		all = append(all, c)
		if !more || !wanted(c) {
			return true
		}
		if o.Text {
			if c.Text, c.Lacks, late = text(ctx); late != nil {
				return false
			}
		}
		more = yield(c)
		return true
	})
	if err = errors.Join(late, err); err != nil || o.From != "" || o.To != "" {
		return operator.Review{}, vfs.At(m.Path, err)
	}
	return reviewOf(all, o.Paths), nil
}

// within reports whether path is one of paths or below one.
func within(paths []string, path string) bool {
	return paths == nil || slices.ContainsFunc(paths, func(p string) bool { return diff.Within(path, p) })
}

// chosen reports whether c is at or below one of paths, or was before a rename.
func chosen(paths []string, c diff.Change) bool {
	return within(paths, c.Path) || c.From != "" && within(paths, c.From)
}

func checkPaths(paths []string) error {
	for _, p := range paths {
		if p == "" {
			continue
		}
		if _, err := vfs.SplitPath(p); err != nil {
			return vfs.At(p, err)
		}
	}
	return nil
}

// keptApplies is how many applies of a mount can be undone.
const keptApplies = 16

// withOverlay runs do on the overlay mounted at path. Nothing else is done to that
// overlay meanwhile.
func (fs *FS) withOverlay(path string, do func(*mount) error) error {
	m, err := fs.at(path)
	if err != nil {
		return err
	}
	switch {
	case m.overlay != nil && fs.o.Journal == nil:
		return vfs.At(path, vfs.Errorf(vfs.Unsupported, "this host has no journal, so changes cannot be applied"))
	case m.overlay != nil:
	case m.store.Own != nil:
		return vfs.At(path, vfs.Errorf(vfs.Unsupported, "this is a git mount and not an overlay: commit its changes instead"))
	default:
		return vfs.At(path, errNoChanges)
	}
	m.work.Lock()
	defer m.work.Unlock()
	return inMount(path, do(m))
}

// inMount is vfs.At, but keeps a path, below the mount, that err names, and the whole
// list of conflicts.
func inMount(path string, err error) error {
	if _, ok := errors.AsType[*diff.Conflicts](err); ok {
		return err
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		path = vfs.Join(path, e.Path)
	}
	return vfs.At(path, err)
}

// Apply implements [operator.VirtualFs]. What the mount withholds is refused as for a guest.
func (fs *FS) Apply(ctx context.Context, path string, o operator.ApplyOptions, progress operator.Progress) (a operator.Applied, err error) {
	if err := checkPaths(slices.Concat(o.Paths, o.Ours, o.Theirs)); err != nil {
		return operator.Applied{}, err
	}
	err = fs.withOverlay(path, func(m *mount) error {
		if o.If == (operator.Review{}) { // otherwise the review shows that the chosen changes no longer exist
			if err := m.known(ctx, o.Paths); err != nil {
				return err
			}
		}
		target := membrane.Guarded(m.store.Root(), nil, unasked(m.guards)...) // guarded asks
		defer target.Close()
		done := act{fs: fs, path: path}
		listed, reviewed := 0, asReviewed(o.If, o.Paths)
		check := func(all []diff.Change) error {
			for _, c := range all {
				if chosen(o.Paths, c) && (o.Theirs == nil || !chosen(o.Theirs, c)) {
					listed++
				}
			}
			if reviewed != nil {
				if err := reviewed(all); err != nil {
					return err
				}
			}
			if err := m.guarded(all, o); err != nil || listed == 0 {
				return err
			}
			return done.begin(fs, operator.Act{Op: "apply", Path: path, Changes: chosenOf(all, o.Paths)})
		}
		got, err := m.overlay.Apply(ctx, overlay.ApplyOptions{
			Paths: o.Paths, Ours: o.Ours, Theirs: o.Theirs, Target: target, Journal: fs.o.Journal, Check: check,
			Progress: progress.Steps(), ID: func() string { return done.id },
		})
		done.ended(err)
		if err != nil {
			return err
		}
		a = operator.Applied{ID: got.ID, Dropped: got.Dropped, DroppedTotal: len(got.Dropped)}
		if got.ID != "" {
			a.Changes = listed
			m.applied = append(m.applied, got.ID)
		}
		if old := len(m.applied) - keptApplies; old > 0 {
			fs.forget(ctx, m.applied[:old])
			m.applied = m.applied[old:]
		}
		return nil
	})
	return a, err
}

// asReviewed returns a function that compares the changes with the reviewed ones.
func asReviewed(r operator.Review, paths []string) func([]diff.Change) error {
	if r == (operator.Review{}) {
		return nil
	}
	return func(all []diff.Change) error {
		if reviewOf(all, paths) != r {
			return vfs.Errorf(vfs.Conflict, "these are no longer the changes that were reviewed; look at the diff again")
		}
		return nil
	}
}

// Undo implements [operator.VirtualFs].
func (fs *FS) Undo(ctx context.Context, path, id string) error {
	return fs.withOverlay(path, func(m *mount) error {
		i := slices.Index(m.applied, id)
		if i < 0 {
			return vfs.Errorf(vfs.NotFound, "no apply of this mount has that id; the last %d can be undone", keptApplies)
		}
		done := act{fs: fs, path: path}
		if fs.recorded() {
			changes, err := batch.Load(ctx, fs.o.Journal, id)
			if err == nil {
				err = done.begin(fs, operator.Act{Op: "undo", Path: path, Of: id, Changes: changes})
			}
			if err != nil {
				return err
			}
		}
		err := m.overlay.Undo(ctx, fs.o.Journal, id)
		done.ended(err)
		if err != nil {
			return err
		}
		m.applied = slices.Delete(m.applied, i, i+1)
		return nil
	})
}

// Revert implements [operator.VirtualFs].
func (fs *FS) Revert(ctx context.Context, path string, paths []string) (n int, err error) {
	if err := checkPaths(paths); err != nil {
		return 0, err
	}
	m, err := fs.at(path)
	if err != nil {
		return 0, err
	}
	if m.overlay == nil && m.store.Own == nil {
		return 0, vfs.At(path, errNoChanges)
	}
	if err := m.known(ctx, paths); err != nil {
		return 0, inMount(path, err)
	}
	m.work.Lock()
	defer m.work.Unlock()
	done := act{fs: fs, path: path}
	if fs.recorded() {
		changes, err := m.changes(ctx, paths)
		if err == nil && len(changes) > 0 {
			err = done.begin(fs, operator.Act{Op: "revert", Path: path, Changes: changes})
		}
		if err != nil {
			return 0, inMount(path, err)
		}
	}
	n, err = m.revert(m.credits(ctx), paths)
	done.ended(err)
	if err != nil {
		return 0, inMount(path, err)
	}
	return n, nil
}

func (m *mount) revert(ctx context.Context, paths []string) (n int, err error) {
	var all []diff.Change
	if m.overlay != nil {
		if all, err = m.overlay.Diff(ctx, ""); err != nil {
			return 0, err
		}
	}
	if len(all) == 0 && m.store.Own != nil {
		return m.store.Own.Revert(ctx, paths)
	}
	for _, d := range all {
		if within(paths, d.Path) {
			n++
		}
	}
	return n, m.overlay.Revert(ctx, paths)
}

// credits returns a context in which a revert returns what it frees to the mount's
// quota.
func (m *mount) credits(ctx context.Context) context.Context {
	if m.meter == nil {
		return ctx
	}
	return vfs.OnCommit(ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		e, err := change()
		if err == nil {
			m.meter.Revert(meter.Effect(e))
		}
		return e, err
	})
}

// Commit implements [operator.VirtualFs]. Changes in an overlay must be applied first.
func (fs *FS) Commit(ctx context.Context, path string, c operator.Commit) (id string, err error) {
	m, err := fs.at(path)
	if err != nil {
		return "", err
	}
	if m.store.Own == nil {
		return "", vfs.At(path, vfs.Errorf(vfs.Unsupported, "only a git mount can be committed"))
	}
	m.work.Lock()
	defer m.work.Unlock()
	done := act{fs: fs, path: path}
	what := operator.Act{Op: "commit", Path: path}
	reviewed := asReviewed(c.If, nil)
	id, err = m.store.Own.Commit(ctx, c, func(all []diff.Change) error {
		if what.Changes = all; reviewed != nil {
			return reviewed(all)
		}
		return nil
	}, func(branch, id string) error {
		what.Branch, what.Commit = branch, id
		return done.begin(fs, what)
	})
	done.ended(err)
	if err == nil && m.upper != nil {
		err = m.upper.Rebase(m.store)
	}
	return id, vfs.At(path, err)
}

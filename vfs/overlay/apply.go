package overlay

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
)

// ApplyOptions configure Apply.
type ApplyOptions struct {
	Paths []string // each with everything below it; nil means all

	// Ours are the paths, each with everything below it, at which the overlay's side
	// wins if the lower tree changed since. At and below Theirs the lower tree stays as
	// it is and the overlay's changes are dropped. The overlay must have a change at or
	// below each of them (otherwise invalid).
	Ours, Theirs []string

	Target  vfs.Dir // the lower tree behind its present guards; nil means the lower tree itself
	Journal vfs.Dir // of package batch

	// ID, if not nil, is asked after Check for the id of the batch; see [batch.Options].
	ID func() string

	// Check, if not nil, gets all changes as Diff would return them. If it returns an
	// error, Apply returns that error and changes nothing.
	Check func([]diff.Change) error

	// Progress, if not nil, is told how many steps are done. The overlay's readers wait
	// for it, so it must not use the overlay.
	Progress func(done, total int)
}

// Applied is the result of Apply.
type Applied struct {
	ID      string // of the batch, for Undo; "" if there was nothing to do
	Changes []diff.Change
	Dropped []string // the sorted paths at which the overlay's changes gave way to Theirs; Undo does not bring them back
}

// Apply changes the lower tree at the chosen paths to what the overlay shows, all or
// nothing. Afterwards the overlay reads through there. Directories that a chosen path
// needs are added.
//
// Apply skips a path if the lower tree is already as wanted, or if only the lower tree
// has changed. If both sides changed, the error is *diff.Conflicts with all such
// paths. Conflicts are looked for in the lower tree itself, even where the target's
// guards hide it. Apply answers invalid when only one of the two places of a move is
// chosen, also in Theirs, and returns errors of the target's guards.
//
// The overlay does not change while Apply runs. Its readers wait from the first change
// of the lower tree to the last. After a crash, call batch.Recover on the journal and
// then New, which finds out what became of the Apply.
func (o *Overlay) Apply(ctx context.Context, options ApplyOptions) (Applied, error) {
	if options.Journal == nil {
		return Applied{}, vfs.Errorf(vfs.Invalid, "an apply needs a journal")
	}
	o.warm(ctx, "")
	var applied Applied
	err := o.unchanged(ctx, func(s *snapshot) (err error) {
		applied, err = o.apply(ctx, s, options)
		return err
	})
	return applied, err
}

func (o *Overlay) apply(ctx context.Context, s *snapshot, options ApplyOptions) (Applied, error) {
	if options.Check != nil {
		all, err := s.diff(ctx, "")
		if err == nil {
			err = options.Check(all)
		}
		if err != nil {
			return Applied{}, err
		}
	}
	chosen, err := s.choose(options.Paths, true)
	if err != nil {
		return Applied{}, err
	}
	if err := s.lead(ctx, chosen); err != nil {
		return Applied{}, err
	}
	p, err := s.plan(ctx, chosen, options)
	if err != nil {
		return Applied{}, err
	}
	changes := make([]diff.Change, 0, len(p.changes))
	for _, path := range slices.Sorted(maps.Keys(p.changes)) {
		changes = append(changes, p.changes[path])
	}
	inner := inside(context.WithoutCancel(ctx))
	if len(changes) == 0 {
		err := o.make(inner, s.settle(chosen, nothing), true, nil)
		return Applied{Dropped: p.dropped}, err
	}
	id, named := "", ""
	if options.ID != nil {
		named = options.ID()
	}
	err = o.carryOut(ctx, s, chosen, changes, nothing, func(lock func()) (err error) {
		id, err = batch.Run(ctx, options.Journal, cmp.Or(options.Target, o.lower), changes, batch.Options{
			ID: named, Name: o.name, Keep: true, Progress: options.Progress,
			Step: func(step string) {
				if step == "intent" { // all of the overlay's contents are copied; the lower tree changes next
					lock()
				}
			},
		})
		return err
	})
	if err != nil {
		return Applied{}, err
	}
	return Applied{ID: id, Changes: changes, Dropped: p.dropped}, nil
}

// carryOut has change make changes in the lower tree, and then settles the chosen paths in
// the overlay. change calls lock before the lower tree changes. Nobody reads from then to
// the end. lacks is as in settle, for the lower tree that there is then.
func (o *Overlay) carryOut(ctx context.Context, s *snapshot, chosen *selection, changes []diff.Change,
	lacks func(string) bool, change func(lock func()) error) error {
	if err := o.intend(inside(ctx), chosen, changes); err != nil {
		return err
	}
	inner := inside(context.WithoutCancel(ctx))
	defer func() { _ = o.settled(inner) }() // if this fails, the next start finds out
	if err := o.assure(inner, s.settle(chosen, nothing)); err != nil {
		return err
	}
	locked := false
	lock := func() {
		if !locked {
			o.mu.Lock()
			locked = true
		}
	}
	defer func() {
		if locked {
			o.mu.Unlock()
		}
	}()
	if err := change(lock); err != nil {
		o.index.cut(inner)
		return err
	}
	lock() // there may have been nothing left to do
	edits := s.settle(chosen, lacks)
	o.mustRecord(inner, edits)
	o.trash = append(o.trash, o.edit(edits)...)
	return nil
}

// settle returns the edits that make the chosen paths read through. The lower tree is
// then as the overlay shows it. A directory that it lacks stays a new one.
func (s *snapshot) settle(chosen *selection, lacks func(path string) bool) []edit {
	var edits []edit
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		if chosen.has(path) {
			edits = append(edits, edit{Do: forget, Path: raw(path)})
		}
	}
	if chosen.all {
		edits = append(edits, touches("", 0))
	}
	home := map[string]bool{"": true} // directories that read through to their own path
	alone := map[string]bool{}        // directories that the lower tree lacks
	for _, n := range s.nodes {
		parent, _ := diff.Split(n.path)
		switch {
		case n.kind == vfs.DirKind && n.stands && chosen.has(n.path) && lacks(n.path):
			alone[n.path] = true
			edits = append(edits, s.keep(n)...)
		case alone[parent]: // what was removed there
			edits = append(edits, edit{Do: drop, Path: raw(n.path)})
		case n.kind == vfs.DirKind && n.through:
			if home[n.path] = home[parent]; chosen.all {
				edits = append(edits, touches(n.path, 0))
			}
		case chosen.has(n.path) && n.kind == vfs.DirKind:
			home[n.path] = true
			edits = append(edits, edit{Do: adopt, Path: raw(n.path), To: raw(n.path)})
		case chosen.has(n.path) && home[parent]:
			edits = append(edits, edit{Do: drop, Path: raw(n.path)})
		case chosen.has(n.path):
			edits = append(edits, restore(n.path, n.kind)...)
		case home[parent] && chosen.has(parent): // it was new, and still holds this
			if _, known := s.bases[n.path]; !known {
				edits = append(edits, knows(n.path, base{}))
			}
		}
	}
	return edits
}

// keep returns the edits that make n a new directory.
func (s *snapshot) keep(n snapshotNode) []edit {
	edits := []edit{{Do: detach, Path: raw(n.path)}, knows(n.path, base{})}
	if n.state.Ms == 0 {
		edits = append(edits, touches(n.path, nowMs()))
	}
	return edits
}

// restore makes path read through to its own lower path although its directory does
// not.
func restore(path string, kind vfs.Kind) []edit {
	return []edit{
		sets(path, state{Kind: kind, Below: true, Origin: raw(path)}),
		knows(path, base{moved: true}),
	}
}

package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/batch"
)

// ApplyOptions say what Apply does, and how.
type ApplyOptions struct {
	Paths []string // each with all below it; nil is everything

	// Ours are the paths, each with all below it, at which the overlay's side wins where
	// the lower tree changed since. At and below Theirs the lower tree stays as it is,
	// and the overlay's changes are dropped. Each is where the overlay has a change, or
	// above one (invalid).
	Ours, Theirs []string

	Target  vfs.Dir // the lower tree as it is guarded today; nil is the lower tree itself
	Journal vfs.Dir // of package batch

	// Check, if any, is shown the changes as Diff would answer them, all of them, and
	// ends Apply with its error before anything is changed.
	Check func([]Change) error

	// Progress, if any, is told how many of the steps are done. The overlay's
	// readers wait for it, so that it must not use the overlay.
	Progress func(done, total int)
}

// Applied is what Apply did.
type Applied struct {
	ID      string // of the batch, for Undo; "" when there was nothing to do
	Changes []batch.Change
	Dropped []string // the paths, sorted, at which the overlay's changes gave way to Theirs; Undo brings none back
}

// Apply makes the lower tree as the overlay shows it, at the paths that are chosen, all
// or nothing, and the overlay reads through there afterwards. The directories that a
// chosen path needs come with it.
//
// A path is left alone where the lower tree is as wanted already, or where only the
// lower tree has changed. Where it has changed since the overlay did, the error is
// *batch.Conflicts with all such paths; they are looked for in the lower tree itself,
// whatever the target's guards hide. It answers invalid when only one place of what was
// moved is chosen, also in Theirs, and what the target's guards answer.
//
// The overlay does not change while Apply runs, and its readers wait from the first
// change of the lower tree to the last. After a crash, batch.Recover has to settle the
// journal; New then finds out what became of it.
func (o *Overlay) Apply(ctx context.Context, options ApplyOptions) (Applied, error) {
	if options.Journal == nil {
		return Applied{}, vfs.Errorf(vfs.Invalid, "an apply needs a journal")
	}
	o.warm(ctx, "")
	if err := o.begin(ctx); err != nil {
		return Applied{}, err
	}
	defer o.end()
	s := o.survey()
	if options.Check != nil {
		all, err := o.diff(ctx, s, "")
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
	if err := o.lead(ctx, chosen); err != nil {
		return Applied{}, err
	}
	p, err := o.plan(ctx, s, chosen, options)
	if err != nil {
		return Applied{}, err
	}
	changes := make([]batch.Change, 0, len(p.changes))
	for _, path := range slices.Sorted(maps.Keys(p.changes)) {
		changes = append(changes, p.changes[path])
	}
	inner := inside(context.WithoutCancel(ctx))
	if len(changes) == 0 {
		err := o.make(inner, s.settle(chosen), true, nil)
		return Applied{Dropped: p.dropped}, err
	}
	if err := o.intend(inside(ctx), chosen, changes); err != nil {
		return Applied{}, err
	}
	edits := s.settle(chosen)
	err = o.assure(inner, edits)
	id := ""
	if err == nil {
		id, err = o.carryOut(ctx, edits, changes, options)
	}
	_ = o.settled(inner) // or the next start finds out what became of it
	if err != nil {
		return Applied{}, err
	}
	return Applied{ID: id, Changes: changes, Dropped: p.dropped}, nil
}

// carryOut makes changes in the lower tree and then edits in the overlay, which nobody
// reads in between.
func (o *Overlay) carryOut(ctx context.Context, edits []edit, changes []batch.Change, options ApplyOptions) (id string, err error) {
	target := options.Target
	if target == nil {
		target = o.lower
	}
	locked := false
	defer func() {
		if locked {
			o.mu.Unlock()
		}
	}()
	id, err = batch.Run(ctx, options.Journal, target, changes, batch.Options{
		Name: o.name, Keep: true, Progress: options.Progress,
		Step: func(step string) {
			if step == "intent" { // all that the overlay holds is copied; the lower tree changes next
				o.mu.Lock()
				locked = true
			}
		},
	})
	if err != nil {
		o.index.cut(context.WithoutCancel(ctx))
		return "", err
	}
	if !locked { // there was nothing to do any more
		o.mu.Lock()
		locked = true
	}
	inner := inside(context.WithoutCancel(ctx))
	o.mustRecord(inner, edits)
	o.trash = append(o.trash, o.edit(edits)...)
	return id, nil
}

// settle returns the edits that let what was chosen read through, once the lower tree is
// as the overlay shows it.
func (s *survey) settle(chosen *selection) []edit {
	var edits []edit
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		if chosen.has(path) {
			edits = append(edits, edit{Do: forget, Path: raw(path)})
		}
	}
	if chosen.all {
		edits = append(edits, touches("", 0))
	}
	home := map[string]bool{"": true} // directories that read through to where they are
	for _, n := range s.nodes {
		parent, _ := split(n.path)
		switch {
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
		case home[parent] && chosen.has(parent): // which was new, and holds this still
			if _, known := s.bases[n.path]; !known {
				edits = append(edits, knows(n.path, base{}))
			}
		}
	}
	return edits
}

// restore lets path read through to where it is, though its directory does not.
func restore(path string, kind vfs.Kind) []edit {
	return []edit{
		sets(path, state{Kind: kind, Below: true, Origin: raw(path)}),
		knows(path, base{moved: true}),
	}
}

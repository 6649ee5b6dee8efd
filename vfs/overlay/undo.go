package overlay

import (
	"context"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
)

// Undo reverses the Apply that returned id in the lower tree, all or nothing. The
// overlay shows the same as before, so the changes wait in it again, except those that
// were dropped. Undo answers *diff.Conflicts when the lower tree is no longer as the Apply
// left it, and notFound for a batch that the journal does not have.
func (o *Overlay) Undo(ctx context.Context, journal vfs.Dir, id string) error {
	changes, err := batch.Load(ctx, journal, id)
	if err != nil {
		return err
	}
	return o.unchanged(ctx, func(s *snapshot) error { return o.undo(ctx, s, journal, id, changes) })
}

func (o *Overlay) undo(ctx context.Context, s *snapshot, journal vfs.Dir, id string, changes []diff.Change) error {
	f := freeze{o: o, s: s}
	defer f.release(ctx)
	// What is within comes before what it is in.
	for _, c := range slices.Backward(changes) {
		if err := f.add(ctx, c); err != nil {
			return err
		}
	}
	if len(f.clashes) > 0 {
		slices.SortFunc(f.clashes, func(a, b diff.Conflict) int { return strings.Compare(a.Path, b.Path) })
		return &diff.Conflicts{Paths: f.clashes}
	}
	// While the lower tree shows the same, this is no change.
	inner := inside(context.WithoutCancel(ctx))
	if err := o.make(inner, f.edits, true, nil); err != nil {
		return err
	}
	f.staged = nil
	if err := batch.Undo(ctx, journal, id, o.lower); err != nil {
		slices.Reverse(f.back)
		if late := o.make(inner, f.back, true, nil); late != nil {
			return late
		}
		return err
	}
	return nil
}

// freeze plans how the overlay keeps showing what it shows while the lower tree changes
// back.
type freeze struct {
	o      *Overlay
	s      *snapshot
	edits  []edit
	back   []edit // edits that reverse edits, in reverse order
	staged []*content

	clashes []diff.Conflict
}

// release removes staged contents that are not used.
func (f *freeze) release(ctx context.Context) {
	for _, c := range f.staged {
		f.o.contents.remove(ctx, c)
	}
}

// add plans for one change that is to be undone, unless somebody undid it already.
func (f *freeze) add(ctx context.Context, c diff.Change) error {
	switch is, err := f.s.lowerState(ctx, c.Path); {
	case err != nil:
		return err
	case is == c.Was:
		return nil
	case is != c.Is:
		f.clashes = append(f.clashes, diff.Conflict{Path: c.Path, Was: c.Is, Becomes: c.Was, Is: is,
			Why: "the lower tree changed here since the apply; make it as it was"})
		return nil
	}
	old, known := f.s.bases[c.Path]
	f.edits = append(f.edits, knows(c.Path, base{state: c.Was}))
	if known {
		f.back = append(f.back, knows(c.Path, old))
	} else {
		f.back = append(f.back, edit{Do: forget, Path: raw(c.Path)})
	}
	at, shown := f.s.where(c.Path)
	if !shown {
		return nil
	}
	undo := edit{Do: drop, Path: raw(at)}
	if i, ok := f.s.at[at]; ok && !f.s.nodes[i].through {
		undo = edit{Do: set, Path: raw(at), Node: f.s.nodes[i].state}
	}
	put := sets(at, state{Kind: gone})
	switch c.Is.Kind {
	case vfs.DirKind:
		undo = edit{Do: adopt, Path: raw(at), To: raw(c.Path)}
		f.edits = append(f.edits, edit{Do: detach, Path: raw(at)})
		put = touches(at, nowMs())
	case vfs.FileKind:
		staged, err := f.stage(ctx, c)
		if err != nil {
			return err
		}
		put = sets(at, state{Kind: vfs.FileKind, Exec: c.Is.Exec, Content: staged.id})
	case vfs.LinkKind:
		put = sets(at, state{Kind: vfs.LinkKind, Target: raw(c.Is.Target), Ms: nowMs()})
	}
	f.edits, f.back = append(f.edits, put), append(f.back, undo)
	return nil
}

// stage stores the content that c gave the file.
func (f *freeze) stage(ctx context.Context, c diff.Change) (*content, error) {
	r, err := c.Content(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	staged, _, err := f.o.contents.stage(ctx, r)
	if err == nil {
		f.staged = append(f.staged, staged)
	}
	return staged, err
}

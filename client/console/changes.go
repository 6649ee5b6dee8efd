package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"slices"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// checkTarget checks the paths of a call about the mount at path. An empty list is
// invalid: on the wire it looks like nil, which means all.
func checkTarget(path string, paths []string) error {
	if paths != nil && len(paths) == 0 {
		return vfs.Errorf(vfs.Invalid, "the list of paths is empty; nil is all")
	}
	return cmp.Or(checkPath(path), wire.CheckTexts(paths))
}

// diffPage is the number of changes to ask for at once. It is large because the host
// looks at all changes for each page.
const diffPage = 10_000

// Diff yields the changes that come after the path after, in byte order of paths. If
// changes were made between two of its pages, Apply answers conflict for the Review.
func (fs *VirtualFs) Diff(ctx context.Context, path string, o operator.DiffOptions, after string, yield func(diff.Change) bool) (review operator.Review, err error) {
	if err := cmp.Or(checkTarget(path, o.Paths), checkPath(after), checkTexts(o.From, o.To)); err != nil {
		return review, err
	}
	for more, pages := true, 0; more; pages++ {
		err := wire.Do(ctx, fs.cap, schema.VirtualFs_diff, func(p schema.VirtualFs_diff_Params, _ *vat.Caps) error {
			p.SetWithText(o.Text)
			p.SetLimit(diffPage)
			return cmp.Or(wire.SetTexts(o.Paths, p.NewPaths), p.SetPath(path), p.SetFromRev(o.From), p.SetToRev(o.To), p.SetAfter([]byte(after)))
		}, func(r schema.VirtualFs_diff_Results, _ *vat.Caps) error {
			seen, err := wire.Review(r.Review())
			if err != nil {
				return err
			}
			if pages > 0 && seen != review {
				seen = sha256.Sum256(append(review[:], seen[:]...)) // a review that matches no changes
			}
			review = seen
			page, err := wire.All(wire.Change)(r.Changes())
			more = r.More() && len(page) > 0
			for _, c := range page {
				after = c.Path
				if !yield(c) {
					more = false
					break
				}
			}
			return err
		})
		if err != nil {
			return operator.Review{}, err
		}
	}
	return review, nil
}

// Apply applies the changes at and below paths, all of them or none. Nil paths are all
// changes. The error for paths that somebody else changed is a [*diff.Conflicts].
func (fs *VirtualFs) Apply(ctx context.Context, path string, o operator.ApplyOptions, progress operator.Progress) (a operator.Applied, err error) {
	if err := cmp.Or(checkTarget(path, o.Paths), checkTarget(path, slices.Concat(o.Paths, o.Ours, o.Theirs))); err != nil {
		return a, err
	}
	told, stop := listen(progress)
	defer stop()
	err = wire.Do(ctx, fs.cap, schema.VirtualFs_apply, func(p schema.VirtualFs_apply_Params, caps *vat.Caps) error {
		p.SetGuarded(o.Guarded)
		return cmp.Or(wire.SetReview(o.If, p.SetReview), p.SetProgress(caps.Put(told)), wire.SetTexts(o.Paths, p.NewPaths), wire.SetTexts(o.Ours, p.NewOurs),
			wire.SetTexts(o.Theirs, p.NewTheirs), p.SetPath(path))
	}, func(r schema.VirtualFs_apply_Results, _ *vat.Caps) error {
		if err := conflicts(r); err != nil {
			return err
		}
		a.Changes, a.DroppedTotal = number(r.Changes()), number(r.DroppedTotal())
		if a.Dropped, err = wire.Texts(r.Dropped()); err != nil {
			return err
		}
		a.ID, err = r.Id()
		return err
	})
	return a, err
}

// Undo reverses the apply with that id. The applied changes wait again; dropped ones do not.
func (fs *VirtualFs) Undo(ctx context.Context, path, id string) error {
	if err := cmp.Or(checkPath(path), checkTexts(id)); err != nil {
		return err
	}
	return wire.Do(ctx, fs.cap, schema.VirtualFs_undo, func(p schema.VirtualFs_undo_Params, _ *vat.Caps) error {
		return cmp.Or(p.SetPath(path), p.SetId(id))
	}, func(r schema.VirtualFs_undo_Results, _ *vat.Caps) error { return conflicts(r) })
}

// Revert drops the changes at and below paths, and counts them. Nil paths are all
// changes.
func (fs *VirtualFs) Revert(ctx context.Context, path string, paths []string) (int, error) {
	if err := checkTarget(path, paths); err != nil {
		return 0, err
	}
	return wire.Ask(ctx, fs.cap, schema.VirtualFs_revert, func(p schema.VirtualFs_revert_Params, _ *vat.Caps) error {
		return cmp.Or(wire.SetTexts(paths, p.NewPaths), p.SetPath(path))
	}, func(r schema.VirtualFs_revert_Results, _ *vat.Caps) (int, error) { return number(r.Count()), nil })
}

// number returns a count that the host answered, at most math.MaxInt32.
func number(n uint64) int { return int(min(n, math.MaxInt32)) }

// conflicts returns the conflicts in results as an error: a [*diff.Conflicts].
func conflicts(r interface {
	Conflicts() (schema.Conflict_List, error)
}) error {
	all, err := wire.All(wire.Conflict)(r.Conflicts())
	if err != nil || len(all) == 0 {
		return err
	}
	return &diff.Conflicts{Paths: all}
}

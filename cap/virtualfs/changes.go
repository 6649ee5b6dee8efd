package virtualfs

import (
	"errors"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

func (s *server) diff(c vat.Call[schema.VirtualFs_diff_Params, schema.VirtualFs_diff_Results]) error {
	path, paths, err := target(c.Params())
	if err != nil {
		return err
	}
	text := wire.Keep[string](&err)
	o := operator.DiffOptions{
		Paths: paths, Text: c.Params().WithText(),
		From: text(wire.Param(c.Params().FromRev())), To: text(wire.Param(c.Params().ToRev())),
	}
	after := wire.Keep[[]byte](&err)(wire.Param(c.Params().After()))
	if err != nil {
		return err
	}
	p := page{limit: wire.PageSize(c.Params().Limit())}
	var changes []diff.Change
	review, err := s.host.Diff(c.Context(), path, o, string(after), func(ch diff.Change) bool {
		if !p.add(wire.ChangeSize(ch)) {
			return false
		}
		changes = append(changes, ch)
		return c.Context().Err() == nil
	})
	if err == nil {
		err = c.Context().Err()
	}
	if err != nil {
		return err
	}
	r, err := c.ResultsFor(p.bytes)
	if err != nil {
		return err
	}
	r.SetMore(p.more)
	if err := wire.SetReview(review, r.SetReview); err != nil {
		return err
	}
	return wire.SetAll(changes, r.NewChanges, wire.SetChange)
}

// target reads the mount and the paths in it that a call is about.
func target(p interface {
	PathBytes() ([]byte, error)
	Paths() (capnp.TextList, error)
	HasPaths() bool
}) (path string, paths []string, err error) {
	if path, err = wire.Path(p.PathBytes()); err != nil {
		return "", nil, err
	}
	paths, err = list(p.HasPaths(), p.Paths)
	return path, paths, vfs.At(path, err)
}

// list reads a list of paths.
func list(has bool, get func() (capnp.TextList, error)) ([]string, error) {
	return wire.Texts(wire.Sound[capnp.TextList](has)(get()))
}

// maxDropped bounds how many of the paths that an apply dropped are listed.
const maxDropped = 1000

func (s *server) apply(c vat.Call[schema.VirtualFs_apply_Params, schema.VirtualFs_apply_Results]) error {
	path, paths, err := target(c.Params())
	if err != nil {
		return err
	}
	texts := wire.Keep[[]string](&err)
	o := operator.ApplyOptions{
		Paths: paths, If: wire.Keep[operator.Review](&err)(wire.Review(wire.Param(c.Params().Review()))),
		Guarded: c.Params().Guarded(),
		Ours:    texts(list(c.Params().HasOurs(), c.Params().Ours)), Theirs: texts(list(c.Params().HasTheirs(), c.Params().Theirs)),
	}
	if err != nil {
		return vfs.At(path, err)
	}
	progress, stop := report(c.Context(), c.Caps().Get(c.Params().Progress()))
	defer stop()
	done, err := s.host.Apply(c.Context(), path, o, progress)
	conflicts, err := settled(err)
	if err != nil {
		return err
	}
	dropped := done.Dropped[:min(len(done.Dropped), maxDropped)]
	r, err := c.ResultsFor(conflicts.bytes + wire.TextsSize(dropped))
	if err != nil {
		return err
	}
	if conflicts.total > 0 {
		r.SetConflictsTotal(conflicts.total)
		return conflicts.set(r.NewConflicts)
	}
	r.SetDroppedTotal(uint64(done.DroppedTotal))
	if err := wire.SetTexts(dropped, r.NewDropped); err != nil {
		return err
	}
	r.SetChanges(uint64(done.Changes))
	return r.SetId(done.ID)
}

func (s *server) undo(c vat.Call[schema.VirtualFs_undo_Params, schema.VirtualFs_undo_Results], path string) error {
	id, err := wire.Param(c.Params().Id())
	if err != nil {
		return err
	}
	conflicts, err := settled(s.host.Undo(c.Context(), path, id))
	if err != nil {
		return err
	}
	r, err := c.ResultsFor(conflicts.bytes)
	if err != nil {
		return err
	}
	r.SetConflictsTotal(conflicts.total)
	return conflicts.set(r.NewConflicts)
}

func (s *server) revert(c vat.Call[schema.VirtualFs_revert_Params, schema.VirtualFs_revert_Results]) error {
	path, paths, err := target(c.Params())
	if err != nil {
		return err
	}
	n, err := s.host.Revert(c.Context(), path, paths)
	if err != nil {
		return err
	}
	c.Results().SetCount(uint64(n))
	return nil
}

// conflicts are the conflicts for the results of a call.
type conflicts struct {
	paths []diff.Conflict
	total uint64 // number of conflicts, also of those for which there is no room
	bytes int
}

// settled returns the conflicts of a change that failed only because of them. Any other
// error it returns as it is.
func settled(err error) (conflicts, error) {
	found := only(err)
	if found == nil || len(found.Paths) == 0 {
		return conflicts{}, err
	}
	c := conflicts{total: uint64(len(found.Paths))}
	for _, p := range found.Paths {
		size := wire.ConflictSize(p)
		if c.bytes+size > wire.MaxWhole {
			break
		}
		c.paths = append(c.paths, p)
		c.bytes += size
	}
	return c, nil
}

// only returns the conflicts in err if nothing else failed, and nil otherwise.
// Conflicts in results mean that nothing was changed, and another failure may have left
// changes.
func only(err error) *diff.Conflicts {
	if vfs.CodeOf(err) != vfs.Conflict {
		return nil
	}
	for err != nil {
		switch e := err.(type) {
		case *diff.Conflicts:
			return e
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			if len(all) != 1 {
				return nil
			}
			err = all[0]
		default:
			err = errors.Unwrap(err)
		}
	}
	return nil
}

func (c conflicts) set(alloc func(int32) (schema.Conflict_List, error)) error {
	return wire.SetAll(c.paths, alloc, wire.SetConflict)
}

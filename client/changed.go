package client

import (
	"context"
	"iter"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Known is a path, and the version of the file that was there when the caller read or wrote it. The
// zero Version stands for nothing: there was no file.
type Known = wire.Known

// Differing is a path at which something else is than was known.
type Differing struct {
	Path    string
	Version vfs.Version // of the file that is there now
	Err     error       // why there is no version: notFound, isDir, denied, and others
}

// ChangedSince yields, in the order of known, the paths that are not as they were known. A file
// is read only if it changed since its version was last computed, so a call about files that
// stayed is cheap. A path that cannot be read differs, and so does one whose read needs an approval
// (askDenied). An error of ChangedSince itself is the last thing yielded.
func (d *Dir) ChangedSince(ctx context.Context, known []Known) iter.Seq2[Differing, error] {
	return func(yield func(Differing, error) bool) {
		for len(known) > 0 {
			some, looked, err := d.changedOf(ctx, known[:wire.KnownFit(known)])
			if err != nil {
				yield(Differing{}, err)
				return
			}
			for _, c := range some {
				if !yield(c, nil) {
					return
				}
			}
			known = known[looked:]
		}
	}
}

// changedOf asks about the first of known, as many as come with one call, and returns how many
// those were.
func (d *Dir) changedOf(ctx context.Context, known []Known) (all []Differing, looked int, err error) {
	if len(known) == 1 {
		if err := vfs.CheckPathSize(known[0].Path); err != nil { // it may not even fit into a message
			return []Differing{{known[0].Path, vfs.Version{}, err}}, 1, nil
		}
	}
	err = do(ctx, &d.ref, schema.Dir_changedSince, func(p schema.Dir_changedSince_Params, _ *vat.Caps) error {
		return wire.SetAll(known, p.NewKnown, wire.SetKnown)
	}, func(r schema.Dir_changedSince_Results, _ *vat.Caps) error {
		if looked = int(r.Looked()); looked == 0 || looked > len(known) {
			return vfs.Errorf(vfs.Corrupt, "the host looked at %d of %d paths", looked, len(known))
		}
		changed, err := r.Changed()
		if err != nil {
			return err
		}
		for i := range changed.Len() {
			c, err := wire.DifferingOf(changed.At(i), known[:looked])
			if err != nil {
				return err
			}
			all = append(all, Differing{known[c.Index].Path, c.Version, c.Err})
		}
		return nil
	})
	return all, looked, err
}

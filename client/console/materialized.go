package console

import (
	"cmp"
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// Materialized is a copy of a subtree in a private directory of the host. It implements
// [operator.Tree].
type Materialized struct {
	cap  *vat.Cap
	path string
}

var _ operator.Tree = (*Materialized)(nil)

// Materialize copies the subtree at path into a private directory of the host. It
// returns a [*Materialized].
func (fs *VirtualFs) Materialize(ctx context.Context, path string, b operator.Bounds, progress operator.Progress) (operator.Tree, error) {
	if b.Entries < 0 || b.Bytes < 0 {
		return nil, vfs.At(path, vfs.Errorf(vfs.Invalid, "a bound is negative; 0 is the host's default"))
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	told, stop := listen(progress)
	defer stop()
	held, err := wire.Ask(ctx, fs.cap, schema.VirtualFs_materialize, func(p schema.VirtualFs_materialize_Params, caps *vat.Caps) error {
		w, err := p.NewBounds()
		if err != nil {
			return err
		}
		wire.SetBounds(w, b)
		return cmp.Or(p.SetProgress(caps.Put(told)), p.SetPath(path))
	}, func(r schema.VirtualFs_materialize_Results, caps *vat.Caps) (*vat.Cap, error) {
		return wire.Held(caps.Get(r.Tree()))
	})
	if err != nil {
		return nil, err
	}
	at, err := wire.Ask(ctx, held, schema.Materialized_path, nil,
		func(r schema.Materialized_path_Results, _ *vat.Caps) (string, error) { return r.Path() })
	if err != nil {
		held.Release()
		return nil, err
	}
	return &Materialized{held, at}, nil
}

// Close releases the tree, and the host then removes the directory. Close does not wait
// for that.
func (t *Materialized) Close() error {
	t.cap.Release()
	return nil
}

// Path returns the path of the directory on the host.
func (t *Materialized) Path() string { return t.path }

// Changes returns what Sync would bring back, and what it would leave out, both in byte
// order of paths.
func (t *Materialized) Changes(ctx context.Context) (changes []diff.Change, skipped []diff.Skipped, err error) {
	cursor := []byte{}
	for more := true; more; {
		err := wire.Do(ctx, t.cap, schema.Materialized_changes, func(p schema.Materialized_changes_Params, _ *vat.Caps) error {
			return p.SetAfter(cursor)
		}, func(r schema.Materialized_changes_Results, _ *vat.Caps) error {
			page, err := wire.All(wire.Change)(r.Changes())
			if err != nil {
				return err
			}
			left, err := wire.All(wire.Skipped)(r.Skipped())
			if err != nil {
				return err
			}
			changes, skipped = append(changes, page...), append(skipped, left...)
			more = r.More() && len(page)+len(left) > 0
			cursor, err = copied(r.Cursor())
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return changes, skipped, nil
}

// Sync brings back what changed, all or nothing. The error for paths that changed on
// both sides is a [*diff.Conflicts]. Of what was left out it returns the first MiB;
// Changes returns everything.
func (t *Materialized) Sync(ctx context.Context, progress operator.Progress) (changes int, skipped []diff.Skipped, err error) {
	told, stop := listen(progress)
	defer stop()
	err = wire.Do(ctx, t.cap, schema.Materialized_sync, func(p schema.Materialized_sync_Params, caps *vat.Caps) error {
		return p.SetProgress(caps.Put(told))
	}, func(r schema.Materialized_sync_Results, _ *vat.Caps) error {
		if skipped, err = wire.All(wire.Skipped)(r.Skipped()); err != nil {
			return err
		}
		changes = number(r.Changes())
		return conflicts(r)
	})
	return changes, skipped, err
}

// Help returns the host's description of a Materialized, or of one of its methods.
func (t *Materialized) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, t.cap, schema.Materialized_help, method)
}

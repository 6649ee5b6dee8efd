package console

import (
	"context"

	served "capd/cap/virtualfs"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// Materialized is a copy of a subtree in a private directory of the host. It implements
// [virtualfs.Tree].
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
	t := &Materialized{}
	err := vat.Do(ctx, fs.cap, schema.VirtualFs_materialize, func(p schema.VirtualFs_materialize_Params, caps *vat.Caps) error {
		w, err := p.NewBounds()
		if err != nil {
			return err
		}
		served.SetBounds(w, b)
		return first(p.SetProgress(caps.Put(told)), p.SetPath(path))
	}, func(r schema.VirtualFs_materialize_Results, caps *vat.Caps) (err error) {
		t.cap, err = hold(caps.Get(r.Tree()))
		return err
	})
	if err != nil {
		return nil, wire.Decode(err)
	}
	err = vat.Do(ctx, t.cap, schema.Materialized_path, nil, func(r schema.Materialized_path_Results, _ *vat.Caps) (err error) {
		t.path, err = r.Path()
		return err
	})
	if err != nil {
		t.Close()
		return nil, wire.Decode(err)
	}
	return t, nil
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
func (t *Materialized) Changes(ctx context.Context) (changes []diff.Change, skipped []operator.Skipped, err error) {
	cursor := []byte{}
	for more := true; more; {
		err := vat.Do(ctx, t.cap, schema.Materialized_changes, func(p schema.Materialized_changes_Params, _ *vat.Caps) error {
			return p.SetAfter(cursor)
		}, func(r schema.Materialized_changes_Results, _ *vat.Caps) error {
			l, err := r.Changes()
			if err != nil {
				return err
			}
			for i := range l.Len() {
				c, err := served.Change(l.At(i))
				if err != nil {
					return err
				}
				changes = append(changes, c)
			}
			left, err := leftOut(r.Skipped())
			if err != nil {
				return err
			}
			skipped = append(skipped, left...)
			more = r.More() && l.Len()+len(left) > 0
			cursor, err = copied(r.Cursor())
			return err
		})
		if err != nil {
			return nil, nil, wire.Decode(err)
		}
	}
	return changes, skipped, nil
}

func leftOut(l schema.Skipped_List, err error) ([]operator.Skipped, error) {
	if err != nil {
		return nil, err
	}
	var all []operator.Skipped
	for i := range l.Len() {
		s, err := served.Skipped(l.At(i))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Sync brings back what changed, all or nothing. The error for paths that changed on
// both sides is a [*diff.Conflicts]. Of what was left out it returns the first MiB;
// Changes returns everything.
func (t *Materialized) Sync(ctx context.Context, progress operator.Progress) (changes int, skipped []operator.Skipped, err error) {
	told, stop := listen(progress)
	defer stop()
	err = vat.Do(ctx, t.cap, schema.Materialized_sync, func(p schema.Materialized_sync_Params, caps *vat.Caps) error {
		return p.SetProgress(caps.Put(told))
	}, func(r schema.Materialized_sync_Results, _ *vat.Caps) error {
		if skipped, err = leftOut(r.Skipped()); err != nil {
			return err
		}
		changes = number(r.Changes())
		return conflicts(r)
	})
	return changes, skipped, wire.Decode(err)
}

// Help returns the host's description of a Materialized, or of one of its methods.
func (t *Materialized) Help(ctx context.Context, method string) (text string, err error) {
	err = vat.Do(ctx, t.cap, schema.Materialized_help, func(p schema.Materialized_help_Params, _ *vat.Caps) error {
		return p.SetMethod(method)
	}, func(r schema.Materialized_help_Results, _ *vat.Caps) error {
		text, err = r.Text()
		return err
	})
	return text, wire.Decode(err)
}

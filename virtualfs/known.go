package virtualfs

import (
	"context"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// known answers notFound if m has nothing at one of paths and never had: no node in m
// or below its overlay, and no change.
func (m *mount) known(ctx context.Context, paths []string) error {
	for _, path := range paths {
		if path == "" {
			continue
		}
		ok, err := m.knows(ctx, path)
		if err != nil {
			return vfs.At(path, err)
		}
		if !ok {
			return vfs.At(path, vfs.Errorf(vfs.NotFound, "nothing has this name, and nothing was changed here"))
		}
	}
	return nil
}

func (m *mount) knows(ctx context.Context, path string) (bool, error) {
	trees := []func() vfs.Dir{m.store.Root}
	if m.overlay != nil {
		trees = append(trees, m.overlay.Root)
	}
	for _, root := range trees {
		if ok, err := there(ctx, root(), path); ok || err != nil {
			return ok, err
		}
	}
	return m.changedAt(ctx, path)
}

// changedAt reports whether there is a change at path or below it.
func (m *mount) changedAt(ctx context.Context, path string) (found bool, err error) {
	at := func(c diff.Change) bool { return chosen([]string{path}, c) }
	if m.overlay != nil {
		all, err := m.overlay.Diff(ctx, "")
		if err != nil || slices.ContainsFunc(all, at) {
			return err == nil, err
		}
	}
	if m.store.Own != nil {
		err = m.store.Own.Diff(ctx, "", "", func(c diff.Change, _ Text) bool {
			found = at(c)
			return !found
		})
	}
	return found, err
}

// there reports whether a node is at path. It follows no link. It closes d.
func there(ctx context.Context, d vfs.Dir, path string) (bool, error) {
	defer d.Close()
	at := diff.NewCursor(d)
	defer at.Close()
	n, err := at.Open(ctx, path)
	switch code := vfs.CodeOf(err); {
	case err == nil:
		return true, n.Close()
	case code == vfs.NotFound || code == vfs.NotDir:
		return false, nil
	}
	return false, err
}

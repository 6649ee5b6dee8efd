package memory

import (
	"context"

	"capd/vfs"
)

// Rename implements vfs.Dir.
func (d *dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if err := vfs.CheckNewName(newName); err != nil {
		return err
	}
	s := d.at.store
	target, ok := dst.(*dir)
	if !ok || target.at.store != s {
		return vfs.CrossDevice
	}
	return s.change(ctx, func(tries int) (step, error) {
		here, err := d.here()
		if err != nil {
			return step{}, err
		}
		there, err := target.here()
		if err != nil {
			return step{}, err
		}
		n, old := here.children[name], there.children[newName]
		if err := conditional(from, n, tries); err != nil {
			return step{}, err
		}
		if n == nil {
			return step{}, vfs.NotFound
		}
		if err := vacant(n, old, there, to, tries); err != nil {
			return step{}, err
		}
		if n == old {
			return step{apply: func() {}}, nil
		}
		st := step{apply: func() {
			here.take(name)
			there.put(newName, n)
			if old != nil && old.kind == vfs.FileKind {
				s.detach(old.data)
			}
		}}
		if old != nil {
			st.grows = old.removal()
		}
		return st, nil
	})
}

// vacant checks whether n may move into there in place of old, which may be nil or n
// itself. Needs store.mu.
func vacant(n, old, there *inode, to vfs.If, tries int) error {
	switch {
	case there.within(n):
		return vfs.ErrIntoItself
	case old == nil:
		return meets(to, nil, tries)
	case old == n:
		return conditional(to, old, tries)
	}
	if err := to.Displaces(old.kind, n.kind); err != nil {
		return err
	}
	switch {
	case len(old.children) > 0:
		return vfs.NotEmpty
	case old.kind != vfs.FileKind:
		return nil
	}
	return meets(to, old, tries)
}

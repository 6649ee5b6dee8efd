package virtualfs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
)

// open opens the store of u, and returns the tree to mount.
func (fs *FS) open(ctx context.Context, u *URL, a operator.Attenuation) (*mount, vfs.Dir, error) {
	below := u
	if u.Below != nil {
		below = u.Below
	}
	opener := fs.o.Open[below.Scheme]
	if opener == nil && u.Below != nil {
		return nil, nil, vfs.Errorf(vfs.Invalid, "%q is neither an option of an overlay, as in overlay:keep:URL and overlay:max=64MiB:URL, nor a kind of store; there are: %s",
			below.Scheme, strings.Join(fs.schemes(), ", "))
	}
	if opener == nil {
		return nil, nil, vfs.Errorf(vfs.Invalid, "there is no kind of store called %q; there are: %s", below.Scheme, strings.Join(fs.schemes(), ", "))
	}
	if u.Below != nil && fs.o.Upper == nil {
		return nil, nil, vfs.Errorf(vfs.Unsupported, "this host has no overlays; mount %s: itself", below.Scheme)
	}
	m := &mount{Mount: operator.Mount{URL: u.String(), Kind: u.Scheme}, url: u}
	if u.Below == nil {
		if err := m.open(ctx, opener, u, a); err != nil {
			return nil, nil, err
		}
		return m, m.store.Root(), nil
	}
	var err error
	if m.upper, err = fs.o.Upper(ctx, u); err != nil {
		return nil, nil, err
	}
	below.Place, below.Base = u.Place, m.upper.Base
	if err := m.open(ctx, opener, below, a); err != nil {
		return nil, nil, errors.Join(err, m.upper.Tree.Close(), m.upper.End(false))
	}
	if err := m.lay(ctx); err != nil {
		m.store.close()
		return nil, nil, err
	}
	return m, m.overlay.Root(), nil
}

// open opens m's store, and makes the guards that a asks for.
func (m *mount) open(ctx context.Context, opener Opener, u *URL, a operator.Attenuation) (err error) {
	if m.store, err = opener(ctx, u); err != nil {
		return err
	}
	if m.guards, err = guards(u.Place, m.store, a); err != nil {
		m.store.close()
	}
	return err
}

func (fs *FS) schemes() []string {
	all := append(slices.Collect(maps.Keys(fs.o.Open)), overlayScheme)
	slices.Sort(all)
	return all
}

// guards returns the guards for what the mount withholds, for what is changed only with
// an approval, and its own.
func guards(place string, s *Store, a operator.Attenuation) ([]membrane.Guard, error) {
	withhold, ask := s.Deny, s.Ask
	if a.Deny != nil {
		withhold = a.Deny
	}
	if a.Ask != nil {
		ask = a.Ask
	}
	var all []membrane.Guard
	if len(withhold) > 0 {
		l, err := deny.Compile(withhold...)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Guard())
	}
	if len(ask) > 0 {
		l, err := deny.Compile(ask...)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Ask(cmp.Or(place, "the tree")))
	}
	return append(all, a.Guards...), nil
}

package virtualfs

import (
	"context"
	"errors"

	"capd/vfs"
	"capd/vfs/overlay"
)

// Upper is what an overlay writes to.
type Upper struct {
	Tree vfs.Dir
	// Close is called after the overlay has closed Tree. settled is true if no change waits
	// in Tree. Close may be nil.
	Close func(settled bool) error

	Kept bool   // the changes in Tree are there after a restart
	Base string // the Store.Base on which the changes in Tree are based; "" for the present one
	// SetBase remembers the Store.Base on which later changes in Tree are based. It may be
	// nil.
	SetBase func(base string) error
}

// End calls Close.
func (u *Upper) End(settled bool) error {
	if u.Close == nil {
		return nil
	}
	return u.Close(settled)
}

// Rebase remembers that later changes are based on what s shows now.
func (u *Upper) Rebase(s *Store) error {
	if u.SetBase == nil || s.Base == nil {
		return nil
	}
	return u.SetBase(s.Base())
}

// lay puts an overlay over m's store.
func (m *mount) lay(ctx context.Context) (err error) {
	lower := m.store.Root()
	if m.overlay, err = overlay.New(ctx, lower, m.upper.Tree, overlay.Options{Name: m.beneath()}); err != nil {
		return errors.Join(err, lower.Close(), m.upper.Tree.Close(), m.upper.End(false))
	}
	beneath := *m.store
	m.store.Close = func() error {
		settled := m.settled(context.Background())
		return errors.Join(m.overlay.Close(), m.upper.End(settled), beneath.close())
	}
	if m.store.Kept = m.upper.Kept; m.store.Kept {
		m.store.Grown, err = m.overlay.Growth(ctx)
	}
	return errors.Join(err, m.upper.Rebase(m.store))
}

// orphaned reports whether m has changes over a tree that ended with an earlier host.
func (m *mount) orphaned() bool {
	return m.store.Kept && m.overlay.Holds() && !m.store.Lasting && !m.store.Fixed
}

// settled reports that no change waits in m's overlay. Where the store ends with its
// mount, a change that it has by now still waits.
func (m *mount) settled(ctx context.Context) bool {
	if !m.overlay.Holds() {
		return true
	}
	changed, err := m.overlay.Changed(ctx)
	return err == nil && !changed && (m.store.Lasting || m.store.Fixed)
}

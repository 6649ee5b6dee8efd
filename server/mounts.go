package server

import (
	"cmp"
	"context"

	"capd/database"
	"capd/record"
)

// Mount opens a store and mounts it at a path. It appears at once in every grant that reaches the path. Mount
// answers exists if something is mounted there, and invalid for a URL that cannot be opened or that would
// show the state directory.
func (s *Server) Mount(ctx context.Context, m Mount) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.mount(ctx, m)
	if err == nil {
		s.noteLater(record.Mounted, m.Path, m.URL)
	}
	if closed := s.serves(); err != nil && closed != nil {
		return closed
	}
	return err
}

func (s *Server) mount(ctx context.Context, m Mount) error {
	url, err := AbsoluteURL(m.URL)
	if err = cmp.Or(err, m.wrong(), m.reserved()); err != nil {
		return m.said(err)
	}
	return m.said(s.fs.Mount(ctx, m.Path, url, m.Attenuation))
}

// Unmount removes the mount at path, and drops the changes that wait there unless they are kept. What guests
// have open in it becomes stale at once. Unmount answers notFound, and busy while the mount's changes are being
// applied, reverted or committed.
func (s *Server) Unmount(ctx context.Context, path string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.fs.Unmount(ctx, path)
	if err == nil {
		s.noteLater(record.Unmounted, path, "")
	}
	return s.noted("unmounting", err)
}

// noteLater adds to the record what the program has mounted or unmounted. Nobody waits for it.
func (s *Server) noteLater(kind record.Kind, path, url string) {
	s.db.Later(func(tx *database.Tx) error { return noteMount(tx, s.record, kind, path, url) })
}

// Mounted lists the mounts, in byte order of paths. Before the start and after the end there are none.
func (s *Server) Mounted() []Mounted {
	if s.serves() != nil {
		return nil
	}
	return s.fs.Mounts()
}

// Diff lists the changes in the overlay or the git revision that is mounted at path, in byte order of paths.
// The Review identifies these changes: pass it to Apply.
func (s *Server) Diff(ctx context.Context, path string, o DiffOptions) (all []Change, r Review, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, Review{}, err
	}
	r, err = s.fs.Diff(ctx, path, o, "", func(c Change) bool {
		all = append(all, c)
		return true
	})
	return all, r, s.noted("a diff", err)
}

// Apply applies the chosen changes in an overlay to the tree below it, all of them or none. It answers conflict
// when the tree below has changed at one of their paths too, or when the changes are no longer the reviewed ones.
func (s *Server) Apply(ctx context.Context, path string, o ApplyOptions) (Applied, error) {
	if err := s.ready(ctx); err != nil {
		return Applied{}, err
	}
	a, err := s.fs.Apply(ctx, path, o, nil)
	return a, s.noted("an apply", err)
}

// Revert drops the changes at and below paths, and returns how many there were. Paths are relative to the
// mount; nil means all changes.
func (s *Server) Revert(ctx context.Context, path string, paths ...string) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	n, err := s.fs.Revert(ctx, path, paths)
	return n, s.noted("a revert", err)
}

// FS returns the tree with the host's own rights, and what else can be done with it: undo, commit, snapshot,
// materialize. It belongs to s. Before the start it is nil.
func (s *Server) FS() *FS {
	if s.phase() < serving {
		return nil
	}
	return s.fs
}

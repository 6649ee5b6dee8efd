package server

import "context"

// Mount opens a store and mounts it at a path. It appears at once in every grant that reaches the path. Mount
// answers exists if something is mounted there, and invalid for a URL that cannot be opened or that would
// show the state directory.
func (s *Server) Mount(ctx context.Context, m Mount) error {
	url, err := AbsoluteURL(m.URL)
	if err != nil {
		return m.said(err)
	}
	return m.said(s.fs.Mount(ctx, m.Path, url, m.Attenuation))
}

// Unmount removes the mount at path, with the changes that wait there. What guests have open in it becomes
// stale at once. Unmount answers notFound, and busy while the mount's changes are being settled.
func (s *Server) Unmount(ctx context.Context, path string) error { return s.fs.Unmount(ctx, path) }

// Mounted lists the mounts, in byte order of paths.
func (s *Server) Mounted() []Mounted { return s.fs.Mounts() }

// Diff lists the changes in the overlay or the git revision that is mounted at path, in byte order of paths.
// The Review stands for these changes: pass it to Apply.
func (s *Server) Diff(ctx context.Context, path string, o DiffOptions) (all []Change, r Review, err error) {
	r, err = s.fs.Diff(ctx, path, o, "", func(c Change) bool {
		all = append(all, c)
		return true
	})
	return all, r, err
}

// Apply applies changes in an overlay to what lies beneath it: all that are chosen or none. It answers
// conflict when something beneath has changed as well, or when the changes are no longer those of the review.
func (s *Server) Apply(ctx context.Context, path string, o ApplyOptions) (Applied, error) {
	return s.fs.Apply(ctx, path, o, nil)
}

// Revert drops the changes at and below paths, and returns how many there were. Paths are relative to the
// mount; nil means all changes.
func (s *Server) Revert(ctx context.Context, path string, paths ...string) (int, error) {
	return s.fs.Revert(ctx, path, paths)
}

// FS returns the tree with the host's own rights, and what else can be done with it: undo, commit, snapshot,
// materialize. It belongs to s.
func (s *Server) FS() *FS { return s.fs }

package server

import "context"

// Mount opens a store and shows it at a path. It appears at once in every grant that reaches the place. It
// answers exists where something is mounted, and invalid for a URL that no store can be opened by, or that
// would show the state directory.
func (s *Server) Mount(ctx context.Context, m Mount) error {
	url, err := AbsoluteURL(m.URL)
	if err != nil {
		return m.said(err)
	}
	return m.said(s.fs.Mount(ctx, m.Path, url, m.Attenuation))
}

// Unmount takes away what is mounted at path, with the changes that wait there. What guests have open in it is
// stale at once. It answers notFound, and busy while its changes are being settled.
func (s *Server) Unmount(ctx context.Context, path string) error { return s.fs.Unmount(ctx, path) }

// Mounted lists what is mounted, in byte order of paths.
func (s *Server) Mounted() []Mounted { return s.fs.Mounts() }

// Diff lists what was changed in the overlay or the git revision that is mounted at path, in byte order of
// paths. The Review is for Apply: it stands for these changes.
func (s *Server) Diff(ctx context.Context, path string, o DiffOptions) (all []Change, r Review, err error) {
	r, err = s.fs.Diff(ctx, path, o, "", func(c Change) bool {
		all = append(all, c)
		return true
	})
	return all, r, err
}

// Apply lets changes in an overlay into what lies beneath it: all that are chosen or none. It answers conflict
// when something beneath has changed as well, or when the changes are no longer those of the review.
func (s *Server) Apply(ctx context.Context, path string, o ApplyOptions) (Applied, error) {
	return s.fs.Apply(ctx, path, o, nil)
}

// Revert drops the changes at and below paths, which are relative to the mount (nil: all of them), and counts
// them.
func (s *Server) Revert(ctx context.Context, path string, paths ...string) (int, error) {
	return s.fs.Revert(ctx, path, paths)
}

// FS is the tree with the host's own rights, and what else can be done with it: undo, commit, snapshot,
// materialize. It stays s's.
func (s *Server) FS() *FS { return s.fs }

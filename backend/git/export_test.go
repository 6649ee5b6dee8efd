package git

import "github.com/go-git/go-git/v5/plumbing"

// Spooling behaves as one who writes the large blob with that id to a file, until end.
func (s *Store) Spooling(id string) (end func()) {
	_, end = s.blobs.beginSpooling(plumbing.NewHash(id))
	return end
}

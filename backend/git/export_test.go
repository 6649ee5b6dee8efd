package git

import "github.com/go-git/go-git/v5/plumbing"

// Spooling acts as a reader that writes the large blob id to a temporary file, until end is called.
func (s *Store) Spooling(id string) (end func()) {
	_, end = s.blobs.beginSpooling(plumbing.NewHash(id))
	return end
}

package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/held"
	"capd/vfs"
)

// Spooling acts as a reader that writes the large blob id to a temporary file, until end is called.
func (s *Store) Spooling(id string) (end func()) {
	begun, over := make(chan struct{}), make(chan struct{})
	go s.blobs.kept.Open(context.Background(), plumbing.NewHash(id), func() (*held.Blob, int64, error) {
		close(begun)
		<-over
		return nil, 0, vfs.Stale
	})
	<-begun
	return func() { close(over) }
}

package git

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

type link struct {
	vfs.ImmutableNode
	ref
}

var _ vfs.Link = (*link)(nil)

// Target implements vfs.Link.
func (l *link) Target(ctx context.Context) (string, error) {
	id, err := l.id(ctx)
	if err != nil {
		return "", err
	}
	target, err := l.in.store.objects.readAs(id, plumbing.BlobObject, vfs.MaxPath)
	if errors.Is(err, errTooLarge) {
		err = vfs.Errorf(vfs.Limit, "a link's target is longer than %d bytes", vfs.MaxPath)
	}
	return string(target), err
}

//go:build !linux

package physical

import (
	"context"

	"capd/vfs"
)

func (s *Store) watch(context.Context, place, vfs.Watch) (vfs.Watching, error) {
	return nil, errNoWatch
}

func (s *Store) unwatch() {}

func (s *Store) noteMade(place) {}

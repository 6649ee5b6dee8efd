package server

import (
	"slices"
	"sync"

	"capd/backend/physical"
)

// directories are the directories of the host that are mounted. Each has one Store,
// however often and by whichever path it is mounted. So all mounts of a directory share its open
// descriptors, what is known of its files, and the place where changes are staged.
type directories struct {
	mu   sync.Mutex
	open []*directory
}

type directory struct {
	*physical.Store
	users int // directories.mu guards it
}

// share takes over s and returns the Store of its directory, which another mount may have opened
// before. The second result ends this use of the Store.
func (d *directories) share(s *physical.Store) (*physical.Store, func() error) {
	o := d.use(s)
	if o.Store != s {
		_ = s.Close() // nothing has used it yet
	}
	return o.Store, func() error {
		if !d.last(o) {
			return nil
		}
		return o.Close()
	}
}

func (d *directories) use(s *physical.Store) *directory {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.open, func(o *directory) bool { return o.Same(s) })
	if i < 0 {
		i = len(d.open)
		d.open = append(d.open, &directory{Store: s})
	}
	d.open[i].users++
	return d.open[i]
}

// last ends one use of o, and reports whether it was the last.
func (d *directories) last(o *directory) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.users--; o.users > 0 {
		return false
	}
	d.open = slices.DeleteFunc(d.open, func(other *directory) bool { return other == o })
	return true
}

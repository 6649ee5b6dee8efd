package server

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"capd/backend/physical"
)

// directories are the directories of the host that are open. A directory that is mounted has one Store,
// however often and by whichever path it is mounted. So all mounts of a directory share its open
// descriptors, what is known of its files, and the place where changes are staged.
type directories struct {
	mu   sync.Mutex
	open []*directory
}

type directory struct {
	*physical.Store
	path  string // by which it was opened first
	upper bool   // an overlay writes there, and no mount shows it
	users int    // directories.mu guards it
}

// share takes over s, which is of the directory at path, and returns the Store of that directory, which
// another mount may have opened before. The second result ends this use of the Store. share answers invalid
// if s shows what an overlay writes to.
func (d *directories) share(s *physical.Store, path string) (*physical.Store, func() error, error) {
	o := d.use(s, path, false)
	if o.Store != s {
		_ = s.Close() // nothing has used it yet
	}
	return d.opened(o)
}

// reserve takes over s, which is of the directory at path, for one overlay to write to. Otherwise it is as share.
func (d *directories) reserve(s *physical.Store, path string) (*physical.Store, func() error, error) {
	return d.opened(d.use(s, path, true))
}

func (d *directories) opened(o *directory) (*physical.Store, func() error, error) {
	end := func() error { return d.end(o) }
	if err := d.apart(o); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return o.Store, end, nil
}

func (d *directories) use(s *physical.Store, path string, upper bool) *directory {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.open, func(o *directory) bool { return !upper && !o.upper && o.Same(s) })
	if i < 0 {
		i = len(d.open)
		d.open = append(d.open, &directory{Store: s, path: path, upper: upper})
	}
	d.open[i].users++
	return d.open[i]
}

// end ends one use of o, and closes it after the last.
func (d *directories) end(o *directory) error {
	d.mu.Lock()
	o.users--
	last := o.users == 0
	if last {
		d.open = slices.DeleteFunc(d.open, func(other *directory) bool { return other == o })
	}
	d.mu.Unlock()
	if !last {
		return nil
	}
	return o.Close()
}

// apart answers invalid if a mount shows what an overlay writes to, and one of the two is o.
func (d *directories) apart(o *directory) (err error) {
	d.mu.Lock()
	all := slices.Clone(d.open)
	for _, other := range all {
		other.users++
	}
	d.mu.Unlock()
	for _, other := range all { // without the lock: one may hang
		switch {
		case other == o:
		case o.upper:
			err = cmp.Or(err, apart([]private{o.private()}, other.path, other.Store))
		case other.upper:
			err = cmp.Or(err, apart([]private{other.private()}, o.path, o.Store))
		}
		err = errors.Join(err, d.end(other))
	}
	return err
}

// private describes what an overlay writes to.
func (o *directory) private() private {
	return private{dir: o.path, what: "the directory of an overlay's changes", field: "upper=", parts: true}
}

package git

import (
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// place is where a directory was opened: the names by which it was reached. It does not
// depend on a Close.
type place struct {
	store  *Store
	parent *place // nil at the root
	name   string // in parent

	last atomic.Pointer[seen]
}

// seen is what was at a place; valid until the store shows another commit.
type seen struct {
	epoch uint64
	dir   directory
}

// directory is what a directory holds. A submodule holds nothing.
type directory struct {
	*tree
	submodule bool
}

// directory returns the directory at p. It answers stale if there is none any more.
// Needs Store.mu for reading.
func (p *place) directory() (directory, error) {
	s := p.store
	if l := p.last.Load(); l != nil && l.epoch == s.epoch {
		return l.dir, nil
	}
	e := entry{mode: filemode.Dir, id: s.base.tree}
	if p.parent != nil {
		in, err := p.parent.directory()
		if err != nil {
			return directory{}, err
		}
		var ok bool
		if e, ok = in.find(p.name); !ok || kindOf(e.mode) != vfs.DirKind {
			return directory{}, vfs.Stale
		}
	}
	d, err := s.directory(e)
	if err == nil {
		p.last.Store(&seen{s.epoch, d})
	}
	return d, err
}

// directory returns the directory that an entry is.
func (s *Store) directory(e entry) (directory, error) {
	if e.mode == filemode.Submodule {
		return directory{noTree, true}, nil
	}
	t, err := s.tree(e.id)
	return directory{t, false}, err
}

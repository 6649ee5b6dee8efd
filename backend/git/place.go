package git

import (
	"sync/atomic"

	"capd/vfs"
)

// place is where a directory was opened: its identity, and the names by which it was
// reached. It does not depend on a Close.
type place struct {
	store  *Store
	parent *place   // nil at the root
	name   string   // in parent
	self   identity // as in its item

	last atomic.Pointer[seen]
}

// seen is what was at a place; valid until the store's directories change.
type seen struct {
	epoch uint64
	dir   *directory
}

// identity returns the identity of the directory that was opened at p.
func (p *place) identity() identity {
	if p.parent == nil || p.self != (identity{}) {
		return p.self
	}
	return p.parent.identity().below(p.name)
}

// identityOf returns the identity of a directory called name at p.
func (p *place) identityOf(it *item, name string) identity {
	if it.self != (identity{}) {
		return it.self
	}
	return p.identity().below(name)
}

// directory returns the directory at p. It answers stale if there is none, or another
// one. Needs Store.mu for reading.
func (p *place) directory() (*directory, error) {
	s := p.store
	if l := p.last.Load(); l != nil && l.epoch == s.epoch {
		return l.dir, nil
	}
	it := s.root
	if p.parent != nil {
		in, err := p.parent.directory()
		if err != nil {
			return nil, err
		}
		switch it = in.find(p.name); {
		case it == nil, it.kind() != vfs.DirKind:
			return nil, vfs.Stale
		case it.self != p.self && p.parent.identityOf(it, p.name) != p.identity():
			return nil, vfs.Stale
		}
	}
	d, err := s.directory(it)
	if err == nil {
		p.last.Store(&seen{s.epoch, d})
	}
	return d, err
}

// changeable returns the directory at p in a form that can be changed. It does so with
// the directories above it too. Nothing visible changes. Needs Store.mu.
func (p *place) changeable() (*directory, error) {
	d, err := p.directory()
	switch {
	case err != nil:
		return nil, err
	case d.submodule:
		return nil, errSubmodule
	case d.over != nil:
		return d, nil
	}
	d = d.changeable()
	if p.parent == nil {
		root := *p.store.root
		root.dir = d
		p.store.root = &root
	} else {
		in, err := p.parent.changeable()
		if err != nil {
			return nil, err
		}
		it := *in.find(p.name)
		it.dir = d
		in.over[p.name] = &it
	}
	p.store.epoch++
	return d, nil
}

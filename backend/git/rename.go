package git

import (
	"context"
	"slices"

	"capd/vfs"
)

// Rename implements vfs.Dir.
func (d *dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	s := d.at.store
	if d.Immutable() {
		return vfs.ReadOnly
	}
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if err := checkNew(newName, vfs.FileKind); err != nil {
		return err
	}
	target, ok := dst.(*dir)
	if !ok || target.at.store != s {
		return vfs.CrossDevice
	}
	m := move{s: s, from: d, name: name, to: target, newName: newName, ifFrom: from, ifTo: to}
	return s.change(ctx, m.check)
}

// move is one move of a node.
type move struct {
	s             *Store
	from, to      *dir
	name, newName string
	ifFrom, ifTo  vfs.If
}

// check checks whether the move is possible, and returns the step. Needs Store.mu for
// reading.
func (m *move) check(tries int) (step, error) {
	here, err := m.from.here()
	if err != nil {
		return step{}, err
	}
	there, err := m.to.here()
	if err != nil {
		return step{}, err
	}
	it, old := here.find(m.name), there.find(m.newName)
	if err := m.s.conditional(m.ifFrom, it, tries); err != nil {
		return step{}, err
	}
	switch {
	case it == nil:
		return step{}, vfs.NotFound
	case it.isSubmodule(), there.submodule:
		return step{}, errSubmodule
	case it.kind() == vfs.LinkKind:
		if err := checkNew(m.newName, vfs.LinkKind); err != nil {
			return step{}, err
		}
	}
	old, err = m.vacant(it, old, tries)
	if err != nil {
		return step{}, err
	}
	if old == it {
		return step{apply: func() error { return nil }}, nil
	}
	st := step{apply: m.apply}
	if old != nil {
		st.grows, err = m.s.removal(old)
	}
	return st, err
}

// vacant checks the new place, and returns what is there: nil, a file to be replaced,
// or it itself.
func (m *move) vacant(it, old *item, tries int) (*item, error) {
	from, to := append(m.from.at.names(), m.name), append(m.to.at.names(), m.newName)
	in := to[:len(to)-1]
	switch {
	case it.kind() == vfs.DirKind && len(in) >= len(from) && slices.Equal(in[:len(from)], from):
		return nil, vfs.ErrIntoItself
	case old == nil:
		return nil, m.s.meets(m.ifTo, nil, tries)
	case slices.Equal(from, to):
		return it, m.s.conditional(m.ifTo, old, tries)
	case old.kind() != vfs.FileKind, it.kind() == vfs.DirKind, m.ifTo.Is.IsZero():
		return nil, vfs.Exists
	}
	return old, m.s.meets(m.ifTo, old, tries)
}

// names returns the names from the root to p.
func (p *place) names() (names []string) {
	for ; p.parent != nil; p = p.parent {
		names = append(names, p.name)
	}
	slices.Reverse(names)
	return names
}

// apply makes the move. Needs Store.mu.
func (m *move) apply() error {
	here, err := m.from.at.changeable()
	if err != nil {
		return err
	}
	there, err := m.to.at.changeable()
	if err != nil {
		return err
	}
	moved := *here.find(m.name)
	moved.name = m.newName
	if moved.data != nil {
		moved.data.hold() // the old place releases its own
	}
	if moved.kind() == vfs.DirKind {
		moved.self = m.from.at.identityOf(&moved, m.name)
	}
	ms := nowMs()
	here.put(m.name, nil, ms)
	there.put(m.newName, &moved, ms)
	m.s.epoch++
	return nil
}

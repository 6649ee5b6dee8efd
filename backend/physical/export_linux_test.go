package physical

import (
	"sync/atomic"

	"capd/vfs"
)

// TellsLess makes s treat its file system as one on which not every move of a file shows
// in its time of change.
func (s *Store) TellsLess() { s.host.(*kernelHost).tells = false }

// TicksOnly makes s treat its file system as one whose times of change are those of a
// ticking clock.
func (s *Store) TicksOnly() { s.host.(*kernelHost).changes.exact.Store(ticks) }

// Settle waits until files that are no longer kept open are closed.
func (s *Store) Settle() {
	if h, ok := s.host.(*kernelHost); ok {
		<-h.open.closes.Idle()
	}
}

// Meddle calls before ahead of each rename of s, as if another program acted between the
// last check and the change.
func (s *Store) Meddle(before func()) { s.host = meddled{s.host, before} }

type meddled struct {
	host
	before func()
}

func (h meddled) enter(p place, try bool) (directory, error) {
	d, err := h.host.enter(p, try)
	if err != nil {
		return nil, err
	}
	return meddledDir{d, h.before}, nil
}

type meddledDir struct {
	directory
	before func()
}

func (d meddledDir) sub(name string) (directory, ident, error) {
	below, id, err := d.directory.sub(name)
	if err != nil {
		return nil, id, err
	}
	return meddledDir{below, d.before}, id, nil
}

func (d meddledDir) move(name string, dst directory, newName string, how how) error {
	d.before()
	return d.directory.move(name, dst.(meddledDir).directory, newName, how)
}

// Watch calls read ahead of each reading of a directory that s begins.
func (s *Store) Watch(read func()) { s.host = watched{s.host, read} }

type watched struct {
	host
	reading func()
}

func (h watched) enter(p place, try bool) (directory, error) {
	d, err := h.host.enter(p, try)
	if err != nil {
		return nil, err
	}
	return watchedDir{d, h.reading}, nil
}

type watchedDir struct {
	directory
	reading func()
}

func (d watchedDir) sub(name string) (directory, ident, error) {
	below, id, err := d.directory.sub(name)
	if err != nil {
		return nil, id, err
	}
	return watchedDir{below, d.reading}, id, nil
}

func (d watchedDir) entries(each func([]vfs.Entry) error) error {
	d.reading()
	return d.directory.entries(each)
}

func (d watchedDir) move(name string, dst directory, newName string, how how) error {
	return d.directory.move(name, dst.(watchedDir).directory, newName, how)
}

// CountAsked returns how often s has asked the kernel for a path or a name since.
func (s *Store) CountAsked() *atomic.Int64 {
	var n atomic.Int64
	s.host = asking{s.host, &n}
	return &n
}

type asking struct {
	host
	n *atomic.Int64
}

func (h asking) enter(p place, try bool) (directory, error) {
	if p.path != "" {
		h.n.Add(1)
	}
	d, err := h.host.enter(p, try)
	if err != nil {
		return nil, err
	}
	return askingDir{d, h.n}, nil
}

type askingDir struct {
	directory
	n *atomic.Int64
}

func (d askingDir) lstat(name string) (attr, error) {
	d.n.Add(1)
	return d.directory.lstat(name)
}

func (d askingDir) look(name string) (attr, ident, error) {
	d.n.Add(1)
	return d.directory.look(name)
}

func (d askingDir) sub(name string) (directory, ident, error) {
	return d.ask(name, d.directory.sub)
}

func (d askingDir) below(path string) (directory, ident, error) {
	return d.ask(path, d.directory.below)
}

func (d askingDir) ask(path string, open func(string) (directory, ident, error)) (directory, ident, error) {
	d.n.Add(1)
	below, id, err := open(path)
	if err != nil {
		return nil, id, err
	}
	return askingDir{below, d.n}, id, nil
}

func (h *kernelHost) cached() int { return h.open.len() }

func (c *descriptors) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}

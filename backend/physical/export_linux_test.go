package physical

import "capd/vfs"

// TellsLess has s treat its file system as one on which not every move of a file
// shows in its time of change.
func (s *Store) TellsLess() { s.host.(*kernelHost).tells = false }

// TicksOnly has s treat its file system as one whose times of change are those of
// a clock that ticks.
func (s *Store) TicksOnly() { s.host.(*kernelHost).changes.exact.Store(ticks) }

// Settle waits until what was kept open, and is no more, is closed.
func (s *Store) Settle() {
	if h, ok := s.host.(*kernelHost); ok {
		<-h.open.closes.Idle()
	}
}

// Meddle has before called before each rename that s makes, as if another program
// came between its last look and the change.
func (s *Store) Meddle(before func()) { s.host = meddled{s.host, before} }

type meddled struct {
	host
	before func()
}

func (h meddled) enter(p place) (directory, error) {
	d, err := h.host.enter(p)
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

// Watch has read called before each reading of a directory that s begins.
func (s *Store) Watch(read func()) { s.host = watched{s.host, read} }

type watched struct {
	host
	reading func()
}

func (h watched) enter(p place) (directory, error) {
	d, err := h.host.enter(p)
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

package server

import (
	"capd/history"
	"capd/shelf"
	"capd/state"
)

// openHistory begins to keep what changes displace, so that they can be undone. There is none without a record.
func (s *Server) openHistory() (err error) {
	if s.record == nil {
		return nil
	}
	if err := state.MakeDir(s.state.Shelf()); err != nil {
		return err
	}
	if s.shelf, err = shelf.OpenAmbient(s.state.Shelf()); err != nil {
		return err
	}
	s.history, err = history.Open(s.db, s.shelf, s.fs.Lasting, history.Options{Bounds: s.History, Logf: s.logf})
	return err
}

// closeHistory lets go of what is kept.
func (s *Server) closeHistory() error {
	if s.shelf == nil {
		return nil
	}
	err := s.shelf.Close()
	s.shelf, s.history = nil, nil
	return err
}

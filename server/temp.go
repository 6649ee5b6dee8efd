package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"capd/hostfile"
	"capd/operator"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
)

// goneDir holds directories of roots for temporary files while they are removed. No root has it as its id.
const goneDir = "+gone"

// sweep unmounts what was for guests that have no grant there any more. It removes from the roots for temporary files what
// belongs to such guests: it is out of sight when sweep returns, and removed after that.
func (s *Server) sweep(ctx context.Context) {
	for _, r := range s.authority.Roots() {
		if r.Kind != operator.Temp {
			continue
		}
		err := s.authority.Unheld(ctx, r.ID, func(gone []operator.Subject) error { return s.putAway(r, gone) })
		if err != nil {
			s.logf("capd: %s: what nobody holds any more is not removed: %v", vfs.Printable(r.ID), err)
		}
	}
	if err := s.leaveScopes(ctx); err != nil {
		s.logf("capd: what guests have no more is not unmounted: %v", err)
	}
	s.erasing.Go(s.erase)
}

// putAway moves the directories that r has for subjects out of sight.
func (s *Server) putAway(r Root, gone []operator.Subject) error {
	r.Path = ""
	away := filepath.Join(s.state.Roots(), goneDir)
	if err := state.MakeDir(away); err != nil {
		return s.state.Unusable(err)
	}
	for _, subject := range gone {
		to := filepath.Join(away, fmt.Sprintf("%d-%d", time.Now().UnixNano(), s.away.Add(1)))
		err := os.Rename(filepath.Join(s.state.Roots(), r.ID, r.Own(subject)), to)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.state.Unusable(err)
		}
	}
	return nil
}

// erase removes what was moved out of sight, also by a host that died.
func (s *Server) erase() {
	s.eraser.Lock()
	defer s.eraser.Unlock()
	away, err := os.OpenRoot(filepath.Join(s.state.Roots(), goneDir))
	if err != nil {
		return // nothing was ever moved
	}
	defer away.Close()
	entries, err := fs.ReadDir(away.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, hostfile.Erase(away, e.Name()))
	}
	if err != nil {
		s.logf("capd: removing temporary files: %v", err)
	}
}

// erased waits for erase, but not for ever: the next host goes on.
func (s *Server) erased() {
	done := make(chan struct{})
	go func() { s.erasing.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(membrane.Grace):
	}
}

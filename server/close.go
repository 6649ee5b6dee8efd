package server

import (
	"context"
	"errors"
	"time"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Serve serves until ctx ends, and then closes s. If s was not started, Serve starts it first. It returns nil
// when nothing went wrong. It also returns when somebody else calls [Server.Close]. If ctx ends during the start,
// Serve returns nil too, and s can be started again.
func (s *Server) Serve(ctx context.Context) (err error) {
	if s.phase() == fresh {
		err = s.Start(ctx)
	} else {
		err = usable(ctx)
	}
	switch {
	case err != nil && ctx != nil && errors.Is(err, ctx.Err()):
		return nil
	case err != nil:
		return err
	}
	if s.phase() == starting {
		return errStarting
	}
	select {
	case <-ctx.Done():
	case <-s.closed:
	case err = <-s.failed:
	}
	return errors.Join(err, s.Close())
}

// Close ends s. Afterwards nothing changes through s any more, and most methods answer
// stale. The grants stay: their locators work again when a Server with the same state directory is started. Close answers busy when a guest's call is stuck in the system, and while s is being started. On a
// Server that was not started it does nothing.
func (s *Server) Close() error {
	switch s.end() {
	case fresh:
		return nil
	case starting:
		return errStarting
	}
	s.close.Do(func() {
		s.closeErr = errors.Join(s.leave(), s.let())
		close(s.closed)
	})
	return s.closeErr
}

// leave ends all guests and the operator's connections.
func (s *Server) leave() error {
	for _, m := range s.fs.Mounts() {
		if m.Changes && !m.Kept {
			s.logf("capd: %s: the changes that waited there end with the host: they were not applied or committed, and the URL has no keep", operator.Place(m.Path))
		}
	}
	// Guests go first: what they are doing ends, and afterwards nothing can begin.
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.authority.Close(), s.served.Close()) }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * membrane.Grace):
		return vfs.Errorf(vfs.Busy, "a guest's call is stuck in a system call; ending without it")
	}
}

// let releases what s has opened, even after a start that failed.
func (s *Server) let() (err error) {
	s.deafen()
	if s.fs != nil {
		err = s.fs.Close()
	}
	if s.hooks != nil {
		s.hooks.Close()
	}
	s.forwarding.end()
	if s.record != nil {
		err = errors.Join(err, s.record.Close())
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	err = errors.Join(err, s.closeHistory())
	s.erased()
	err = errors.Join(err, s.temps.close())
	for _, own := range s.scratches {
		err = errors.Join(err, own.lock.Close())
	}
	if s.unlock != nil {
		s.unlock()
	}
	return err
}

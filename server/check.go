package server

import (
	"cmp"

	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// Check answers what is wrong with s, as far as that can be found without changing anything. It answers
// invalid for mounts that cannot be opened, and for a mount that would show the state directory or the
// directory of the guests' socket.
func (s *Server) Check() error {
	st, err := state.Open(s.State)
	if err != nil {
		return err
	}
	if _, _, err := s.addresses(); err != nil {
		return err
	}
	if err := s.checkStores(); err != nil {
		return err
	}
	if err := cmp.Or(s.checkPolicy(), s.checkHooks(), s.checkForward(), s.checkInvitations()); err != nil {
		return err
	}
	if m := s.Socket.Mode; m != 0 && m.wrong() {
		return vfs.Errorf(vfs.Invalid, "Socket.Mode is %#o; it is 0o660 for a group, 0o666 for every user of this machine, or 0o600", m)
	}
	for _, m := range s.Mounts {
		if err := s.possible(&m, st); err != nil {
			return m.said(err)
		}
	}
	return nil
}

// possible checks one mount.
func (s *Server) possible(m *Mount, st state.Dir) error {
	if err := cmp.Or(m.wrong(), m.reserved()); err != nil {
		return err
	}
	u, err := virtualfs.ParseURL(m.URL)
	if err != nil {
		return err
	}
	if err := s.checkForm(u); err != nil {
		return err
	}
	if u.Below != nil {
		u = u.Below
	}
	if u.Scheme != "physical" {
		return nil
	}
	return canServe(s.privates(st), u.Path)
}

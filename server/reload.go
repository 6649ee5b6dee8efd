package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"capd/authority"
	"capd/state"
	"capd/vfs"
)

// Reload makes s, which serves, what next says: its Mounts, Roots, Policy, Hooks, Limits, GuestLimits and Invitations, and guests as
// Reconcile has them. next is a Server that was not started, as Load sets one. What a mount of next has in common with s stays mounted;
// of one that has changed, what guests have open becomes stale. A guest that s had already gets no new grant if its grant
// was revoked or has expired, and likewise an invitation.
//
// If something is wrong with next, or cannot be mounted, or one of guests cannot be granted what it has, nothing changes. So
// it is, with the code busy, if a mount would go in which changes wait that are not kept. What Reload does not change, such as
// Listen and State, is logged if next has it otherwise.
//
// Guests that lose rights or their grant lose them before anything new is mounted: what they have open becomes stale, and their
// locators answer busy until Reload has ended, also if it fails.
func (s *Server) Reload(ctx context.Context, next *Server, guests []Guest) ([]*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if next == nil || next.phase() != fresh {
		return nil, vfs.Errorf(vfs.Invalid, "what is reloaded is a Server that was not started; make one, and call its Load")
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	from := s.laid
	to, err := s.reloadable(ctx, next)
	if err != nil {
		return nil, err
	}
	to.guests = from.guests
	if err := s.losing(from, to); err != nil {
		return nil, err
	}
	if err := s.clear(ctx, from, to); err != nil {
		return nil, s.back(ctx, to, from, err)
	}
	release, err := s.holdBack(ctx, guests)
	if err != nil {
		return nil, s.back(ctx, to, from, err)
	}
	defer release()
	if err := s.furnish(ctx, to); err != nil {
		return nil, s.back(ctx, to, from, err)
	}
	all, err := s.reconcile(ctx, guests, to.invites, true)
	if _, ok := errors.AsType[*authority.Unwanted](err); ok {
		return nil, s.back(ctx, to, from, err)
	}
	to.guests = s.laid.guests
	s.laid = to
	err = errors.Join(err, s.hookOnly(ctx, to))
	if late := s.rules.decided(); late != nil {
		s.logf("capd: %v", late)
	}
	if differs := s.fixed(next); len(differs) > 0 {
		s.logf("capd: %s: changes at the next start", strings.Join(differs, ", "))
	}
	return all, err
}

// reloadable checks next as far as that changes nothing, and returns what it says.
func (s *Server) reloadable(ctx context.Context, next *Server) (layout, error) {
	check := Server{Mounts: next.Mounts, Roots: next.Roots, Policy: next.Policy, Invitations: next.Invitations, Hooks: next.Hooks, Stores: s.Stores, State: string(s.state), Socket: s.Socket}
	if err := check.Check(); err != nil {
		return layout{}, err
	}
	to, err := s.layoutOf(next)
	if err == nil {
		err = s.rules.admits(to.policy, to.roots.All())
	}
	for i := 0; i < len(to.mounts) && err == nil; i++ {
		if m := to.mounts[i]; !slices.ContainsFunc(s.laid.mounts, func(o Mount) bool { return o.URL == m.URL }) {
			err = m.said(s.fs.CanOpen(ctx, m.URL))
		}
	}
	return to, err
}

// fixed names what next has otherwise and Reload does not change, in the words of a configuration.
func (s *Server) fixed(next *Server) (all []string) {
	if st, err := state.Open(next.State); err == nil && st != s.state {
		all = append(all, "state")
	}
	if !slices.Equal(next.Listen, s.Listen) {
		all = append(all, "listen")
	}
	if next.Advertise != s.Advertise {
		all = append(all, "advertise")
	}
	if next.Socket != s.Socket {
		all = append(all, "the socket")
	}
	if next.ApprovalsWait != s.ApprovalsWait {
		all = append(all, "approvals")
	}
	if next.Unrecorded != s.Unrecorded || next.Retention != s.Retention || next.Telemetry != s.Telemetry {
		all = append(all, "record")
	}
	if next.History != s.History {
		all = append(all, "history")
	}
	return all
}

package server

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"

	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/vfs"
)

// layout is what a configuration says of a host, as far as Reload changes it.
type layout struct {
	mounts              []Mount // with absolute URLs; those of roots too
	roots               *policy.Roots
	policy              Policy
	limits, guestLimits Limits
	guests              []Guest // of the last Reconcile
	invites             []Invitation
	hooks               []Hook
}

// layoutOf returns what the fields of next say, for s. It makes the directories of roots.
func (s *Server) layoutOf(next *Server) (l layout, err error) {
	if l.roots, err = next.placed(); err != nil {
		return l, err
	}
	l.policy, l.limits, l.guestLimits, l.invites, l.hooks = next.Policy, next.Limits, next.GuestLimits, next.Invitations, next.Hooks
	for _, m := range next.Mounts {
		url, err := AbsoluteURL(m.URL)
		if err != nil {
			return l, m.said(err)
		}
		m.URL = url
		l.mounts = append(l.mounts, m)
	}
	more, err := s.rootMounts(next.Roots)
	l.mounts = append(l.mounts, more...)
	return l, err
}

// has reports whether g is one of the guests as it is.
func (l *layout) has(g Guest) bool {
	return slices.ContainsFunc(l.guests, func(o Guest) bool {
		o.Where = g.Where
		return reflect.DeepEqual(o, g)
	})
}

// mountsAs reports whether m is one of the mounts as it is.
func (l *layout) mountsAs(m Mount) bool {
	return slices.ContainsFunc(l.mounts, func(o Mount) bool {
		return o.Path == m.Path && o.URL == m.URL && reflect.DeepEqual(o.Attenuation, m.Attenuation)
	})
}

// there returns those of l's mounts that are mounted now, in order.
func (s *Server) there(l layout) (all []Mount) {
	mounted := s.fs.Mounts()
	for _, m := range l.mounts {
		if slices.ContainsFunc(mounted, func(o Mounted) bool { return o.Path == m.Path && o.URL == m.URL }) {
			all = append(all, m)
		}
	}
	return all
}

// clear unmounts what to does not have of from, and sets its rules, its roots and its hooks: so none is missing while something is
// mounted that it is about.
func (s *Server) clear(ctx context.Context, from, to layout) error {
	if err := s.follow(ctx, to); err != nil {
		return err
	}
	there := s.there(from)
	for _, m := range slices.Backward(there) {
		if to.mountsAs(m) {
			continue
		}
		lost := s.loses(ctx, m.Path)
		if err := s.fs.Unmount(ctx, m.Path); err != nil {
			return m.said(err)
		}
		if lost {
			s.logf("capd: %s: what was in memory there is gone: the new configuration has something else or nothing there", operator.Place(m.Path))
		}
	}
	if err := s.rules.exchange(to.policy, to.roots.All()); err != nil {
		return err
	}
	if err := s.authority.SetRoots(to.roots); err != nil {
		return err
	}
	s.hooks.SetRoots(to.roots.All())
	return s.hookBoth(ctx, from, to)
}

// loses reports whether something is in the mount at path that ends with it.
func (s *Server) loses(ctx context.Context, path string) bool {
	if s.fs.Lasting(path) || s.fs.Drafted(path) || s.fs.Reopens(path) {
		return false
	}
	d, err := s.fs.Dir(ctx, path)
	if err != nil {
		return false
	}
	defer d.Close()
	for _, err := range d.List(ctx) {
		return err == nil
	}
	return false
}

// furnish mounts what to has and is not mounted, and sets its limits. See clear, which goes before.
func (s *Server) furnish(ctx context.Context, to layout) error {
	there := s.there(to)
	for _, m := range to.mounts {
		if slices.ContainsFunc(there, func(o Mount) bool { return o.Path == m.Path }) {
			continue
		}
		if err := s.mount(ctx, m); err != nil {
			return err
		}
	}
	if err := s.scopesAgain(ctx, to); err != nil {
		return err
	}
	all := meter.HostLimits()
	for k, n := range hostLimits(to.limits) {
		all[k] = n
	}
	s.authority.Meters().All().Replace(all)
	return s.authority.SetDefaults(ctx, to.guestLimits)
}

// losing answers busy if changes wait in a mount of from that is not in to, and would be lost.
func (s *Server) losing(from, to layout) error {
	going := s.otherwise(to)
	there := s.there(from)
	for _, m := range s.fs.Mounts() {
		if i := slices.IndexFunc(there, func(o Mount) bool { return o.Path == m.Path }); i >= 0 && !to.mountsAs(there[i]) {
			going = append(going, m)
		}
	}
	for _, m := range going {
		if m.Changes && !m.Kept {
			return vfs.Errorf(vfs.Busy, "changes wait at %s, where the new configuration has something else or nothing, and would be lost; apply, commit or revert them, and reload again",
				operator.Place(m.Path))
		}
	}
	return nil
}

// back arranges what was there before a reload that failed with err.
func (s *Server) back(ctx context.Context, from, to layout, err error) error {
	ctx = context.WithoutCancel(ctx)
	undone := s.clear(ctx, from, to)
	if undone == nil {
		undone = cmp.Or(s.furnish(ctx, to), s.hookOnly(ctx, to))
	}
	if undone == nil {
		return err
	}
	s.logf("capd: undoing a reload: %v", undone)
	return &vfs.Error{Code: vfs.CodeOf(err), Msg: vfs.Message(err) + "; and not everything is again as it was: " + vfs.Message(undone), Cause: errors.Join(err, undone)}
}

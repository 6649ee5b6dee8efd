package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"capd/authority"
	"capd/locator"
	"capd/operator"
	"capd/vfs"
)

// Granted is a new grant, with the locators that lead to it. Whoever has one of them has the capability. They
// are not kept anywhere else.
type Granted struct {
	Grant
	Since   time.Time // when it was made
	Locator string    // for guests on this machine; "" for a grant of an earlier start, whose guest has it, and with a File
	File    string    // where the locator is; "" unless the guest has a LocatorFile
	TLS     []string  // for guests elsewhere, one for each of Server.Listen
}

// String describes the grant. It has no locator, so that a log has none.
func (g Granted) String() string {
	return fmt.Sprintf("%s %s %q %s", g.ID, g.Guest, g.Path, g.Mode)
}

// Grant grants a part of the tree to a guest. It answers what [operator.ParseSubject] answers of its name,
// and what walking to the path answers. The grant outlives the host: see [Server.Keep] for a grant that is made at each
// start.
func (s *Server) Grant(ctx context.Context, g Guest) (*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	given, secret, err := s.authority.GrantOn(ctx, g.Name, g.Path, terms(g, operator.ByOperator))
	if err != nil {
		return nil, s.refused(g, err)
	}
	return s.granted(authority.Standing{Grant: given, Since: time.Now(), Secret: &secret}), nil
}

// Keep is Grant, unless an earlier start with the same state directory, or this one, has made the same grant with
// Keep. Then it returns that grant, without a locator: the guest has it. A grant whose path leads to other stores than it
// did is not the same.
func (s *Server) Keep(ctx context.Context, g Guest) (*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	given, err := s.authority.Keep(ctx, authority.Wanted{Guest: g.Name, Path: g.Path, Terms: terms(g, operator.ByServe)})
	if err != nil {
		return nil, s.refused(g, err)
	}
	return s.granted(given), nil
}

// Reconcile grants to guests as a configuration names them. A grant that an earlier Reconcile has made, also before a
// restart with the same state directory, is kept if guests still has that name with that path, and is returned without a
// locator: the guest has it. Its rights, limits and times become those in guests, also what SetLimits has set since. What a
// guest has open goes on, unless its rights change: then it is stale, and the locator leads to it again. Others that Reconcile has made are revoked. If one of guests cannot be granted what it has, nothing changes.
//
// If a guest has a LocatorFile, its locator is there afterwards, and only this user can read it. A file without a
// locator of the grant gets a new one, and the locator that there was before ends. The file may not lie in a directory that is
// mounted, where other guests could read it, and such a directory is not mounted later.
//
// Reconcile does the same for the invitations: those of Invitations, or of the last Reload.
func (s *Server) Reconcile(ctx context.Context, guests []Guest) ([]*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	return s.reconcile(ctx, guests, s.laid.invites, false)
}

// reconcile is Reconcile. With again, a guest that the one before had too gets no new grant if its grant has ended, and so it is with
// invitations. Needs s.reloading.
func (s *Server) reconcile(ctx context.Context, guests []Guest, invites []Invitation, again bool) ([]*Granted, error) {
	wanted, err := s.wantedGrants(guests, again)
	if err != nil {
		return nil, err
	}
	invited, err := s.wantedInvites(invites, again)
	if err != nil {
		return nil, err
	}
	all, err := s.authority.Reconcile(ctx, operator.ByConfig, wanted)
	if u, ok := errors.AsType[*authority.Unwanted](err); ok {
		return nil, s.refused(guests[u.Index], u)
	}
	if err != nil {
		return nil, s.noted("the grants", err)
	}
	s.laid.guests = guests
	files := locatorFiles(guests, invites)
	s.locators.Store(&files)
	if err := s.reconcileInvites(ctx, invites, invited); err != nil {
		return nil, err
	}
	out := make([]*Granted, len(all))
	for i, given := range all {
		if file := guests[i].LocatorFile; file != "" && given.State != operator.Revoked && given.State != operator.Expired {
			if err := s.keepGrant(ctx, file, given); err != nil {
				return nil, s.refused(guests[i], err)
			}
			out[i] = &Granted{Grant: given.Grant, Since: given.Since, File: file}
			continue
		}
		out[i] = s.granted(given)
	}
	return out, nil
}

// wantedGrants returns the grants that guests are to have; again is that of reconcile.
func (s *Server) wantedGrants(guests []Guest, again bool) ([]authority.Wanted, error) {
	wanted := make([]authority.Wanted, len(guests))
	for i, g := range guests {
		if err := s.unserved(locatorFiles([]Guest{g}, nil)); err != nil {
			return nil, s.refused(g, &authority.Unwanted{Index: i, Err: err})
		}
		wanted[i] = authority.Wanted{Guest: g.Name, Path: g.Path, Terms: terms(g, operator.ByConfig), Permissions: g.Permissions, Again: again && s.laid.has(g)}
	}
	return wanted, nil
}

// holdBack keeps those guests away that a Reconcile with guests gives less than they have, until release is called.
func (s *Server) holdBack(ctx context.Context, guests []Guest) (release func(), err error) {
	wanted, err := s.wantedGrants(guests, true)
	if err != nil {
		return nil, err
	}
	release, err = s.authority.HoldBack(ctx, operator.ByConfig, wanted)
	if u, ok := errors.AsType[*authority.Unwanted](err); ok {
		return nil, s.refused(guests[u.Index], u)
	}
	return release, err
}

func terms(g Guest, source string) operator.Terms {
	return operator.Terms{
		Root: g.Root, ReadOnly: g.ReadOnly, Rights: g.Rights, Links: g.Links, BeyondDefault: g.BeyondDefault, Scratch: int64(g.Scratch.Bytes), Limits: g.Limits,
		Expires: g.Expires, Unused: g.Unused, Uses: g.Uses, Source: source,
	}
}

// refused returns the error of a grant to g, with where g is written.
func (s *Server) refused(g Guest, err error) error {
	err = s.noted("a grant", err)
	if g.Where == "" {
		return err
	}
	return &vfs.Error{Code: vfs.CodeOf(err), Msg: fmt.Sprintf("%s: a grant of %q: %s", g.Where, g.Path, vfs.Message(err)), Cause: err}
}

func (s *Server) granted(given authority.Standing) *Granted {
	out := &Granted{Grant: given.Grant, Since: given.Since}
	if given.Secret == nil {
		return out
	}
	out.Locator = s.locate(*given.Secret)
	for _, w := range s.ways {
		out.TLS = append(out.TLS, w.Locator(*given.Secret).String())
	}
	return out
}

// locate returns the locator of a secret for guests on this machine.
func (s *Server) locate(secret [locator.SecretSize]byte) string {
	return locator.Locator{Socket: s.guests.path, Secret: secret}.String()
}

// Grants lists the grants, oldest first, including shares and revoked grants, also those of earlier starts with the same
// state directory. Before the start and after the end there are none.
func (s *Server) Grants() []Grant {
	if s.serves() != nil {
		return nil
	}
	all, _ := s.authority.Grants("", math.MaxInt) // it fails only after an id that is wrong
	return all
}

// Revoke revokes every grant of a guest, or the grant with that id, and everything shared from them, and
// returns how many it revoked. Afterwards nothing changes through them any more. It answers notFound, and
// busy when a change is stuck.
func (s *Server) Revoke(guest string) (int, error) {
	if err := s.serves(); err != nil {
		return 0, err
	}
	return s.authority.Revoke(guest)
}

// SetWritable unlocks or locks every grant of a guest, or the grant with that id, for writing, and returns
// how many there are.
func (s *Server) SetWritable(guest string, on bool) (int, error) {
	if err := s.serves(); err != nil {
		return 0, err
	}
	return s.authority.SetWritable(guest, on)
}

// SetLimits changes what every grant of a guest, or the grant with that id, may hold, and returns how many
// there are.
func (s *Server) SetLimits(guest string, l Limits) (int, error) {
	if err := s.serves(); err != nil {
		return 0, err
	}
	return s.authority.SetLimits(guest, l)
}

// Authority returns the authority behind the methods about grants. It belongs to s. Before the start it is nil.
func (s *Server) Authority() *authority.Host {
	if s.phase() < serving {
		return nil
	}
	return s.authority
}

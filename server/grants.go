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
// restart with the same state directory, is kept if guests still has it, and is returned without a locator: the guest has
// it. Others that Reconcile has made are revoked. If one of guests cannot be granted what it has, nothing changes.
//
// If a guest has a LocatorFile, its locator is there afterwards, and only this user can read it. A file without a
// locator of the grant gets a new one, and the locator that there was before ends.
func (s *Server) Reconcile(ctx context.Context, guests []Guest) ([]*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	wanted := make([]authority.Wanted, len(guests))
	for i, g := range guests {
		wanted[i] = authority.Wanted{Guest: g.Name, Path: g.Path, Terms: terms(g, operator.ByConfig)}
	}
	all, err := s.authority.Reconcile(ctx, operator.ByConfig, wanted)
	if u, ok := errors.AsType[*authority.Unwanted](err); ok {
		return nil, s.refused(guests[u.Index], u.Err)
	}
	if err != nil {
		return nil, s.noted("the grants", err)
	}
	out := make([]*Granted, len(all))
	for i, given := range all {
		if file := guests[i].LocatorFile; file != "" {
			if err := s.keepLocator(ctx, file, given); err != nil {
				return nil, s.refused(guests[i], err)
			}
			out[i] = &Granted{Grant: given.Grant, Since: given.Since, File: file}
			continue
		}
		out[i] = s.granted(given)
	}
	return out, nil
}

func terms(g Guest, source string) operator.Terms {
	return operator.Terms{
		Root: g.Root, ReadOnly: g.ReadOnly, Rights: g.Rights, BeyondDefault: g.BeyondDefault, Limits: g.Limits, Source: source,
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

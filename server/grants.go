package server

import (
	"context"
	"fmt"
	"math"

	"capd/authority"
	"capd/locator"
	"capd/operator"
	"capd/vfs"
)

// Granted is a new grant, with the locators that lead to it. Whoever has one of them has the capability. They
// are not kept anywhere else.
type Granted struct {
	Grant
	Locator string   // for guests on this machine
	TLS     []string // for guests elsewhere, one for each of Server.Listen
}

// String describes the grant. It has no locator, so that a log has none.
func (g Granted) String() string {
	return fmt.Sprintf("%s %s %q %s", g.ID, g.Guest, g.Path, g.Mode)
}

// Grant grants a part of the tree to a guest. It answers what [operator.ParseSubject] answers of its name,
// and what walking to the path answers.
func (s *Server) Grant(ctx context.Context, g Guest) (*Granted, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	given, secret, err := s.authority.GrantOn(ctx, g.Name, g.Path, operator.Terms{ReadOnly: g.ReadOnly, Limits: g.Limits})
	err = s.noted("a grant", err)
	if err != nil && g.Where != "" {
		return nil, &vfs.Error{Code: vfs.CodeOf(err), Msg: fmt.Sprintf("%s: a grant of %q: %s", g.Where, g.Path, vfs.Message(err)), Cause: err}
	}
	if err != nil {
		return nil, err
	}
	out := &Granted{Grant: given, Locator: s.locate(secret)}
	for _, w := range s.ways {
		out.TLS = append(out.TLS, w.Locator(secret).String())
	}
	return out, nil
}

// locate returns the locator of a secret for guests on this machine.
func (s *Server) locate(secret [locator.SecretSize]byte) string {
	return locator.Locator{Socket: s.guests.path, Secret: secret}.String()
}

// Grants lists the grants, oldest first, including shares and revoked grants. Before the start there are none.
func (s *Server) Grants() []Grant {
	if s.phase() < serving {
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

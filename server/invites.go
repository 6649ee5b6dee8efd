package server

import "context"

// Invited is a new invitation, with the locators that lead to it. Whoever has one of them can ask as its subject. They are
// not kept anywhere else.
type Invited struct {
	Invite
	Locator string   // for programs on this machine
	TLS     []string // for others, one for each of Server.Listen
}

// Invite lets a subject ask for grants that it does not hold, as capd invite does. What it asks for waits in
// [Server.Approvals], unless t gives it without asking. It answers invalid, and limit.
func (s *Server) Invite(ctx context.Context, subject string, t InviteTerms) (*Invited, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	i, secret, err := s.authority.Invite(ctx, subject, t)
	if err != nil {
		return nil, s.noted("an invitation", err)
	}
	out := &Invited{Invite: i, Locator: s.locate(secret)}
	for _, w := range s.ways {
		out.TLS = append(out.TLS, w.Locator(secret).String())
	}
	return out, nil
}

// Invites returns the invitations, the oldest first, also those that have ended, of which the last 4096 are remembered.
func (s *Server) Invites(ctx context.Context) ([]Invite, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.authority.Invites(ctx)
}

// RevokeInvite ends the invitation with that id. What waits for an answer ends. What was granted stays: [Server.Revoke] takes
// back both. It answers notFound.
func (s *Server) RevokeInvite(id string) error {
	if err := s.serves(); err != nil {
		return err
	}
	return s.authority.RevokeInvite(id)
}

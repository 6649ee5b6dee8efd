package console

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Invite lets a subject ask for grants. It returns the invitation and its locator, which is a secret.
func (c *Console) Invite(ctx context.Context, subject string, t operator.InviteTerms) (i operator.Invite, locator string, err error) {
	if err := t.Check(); err != nil {
		return i, "", err
	}
	err = wire.Do(ctx, c.cap, schema.Console_invite, func(p schema.Console_invite_Params, _ *vat.Caps) error {
		p.SetExpiresInMs(t.Expires.Milliseconds())
		return errors.Join(p.SetSubject(subject), p.SetSource(t.Source), wire.SetPermissions(t.Permissions, p.NewPermissions))
	}, func(r schema.Console_invite_Results, _ *vat.Caps) error {
		if i, err = wire.One(wire.Invite)(r.Invite()); err != nil {
			return err
		}
		locator, err = r.Locator()
		return err
	})
	return i, locator, err
}

// Invites returns the invitations, the oldest first, also of those that have ended the last 4096.
func (c *Console) Invites(ctx context.Context) ([]operator.Invite, error) {
	return wire.Ask(ctx, c.cap, schema.Console_invites, nil, func(r schema.Console_invites_Results, _ *vat.Caps) ([]operator.Invite, error) {
		return wire.All(wire.Invite)(r.Invites())
	})
}

// RevokeInvite ends the invitation with that id. What was granted with it stays.
func (c *Console) RevokeInvite(ctx context.Context, id string) error {
	return wire.Do(ctx, c.cap, schema.Console_revokeInvite, func(p schema.Console_revokeInvite_Params, _ *vat.Caps) error { return p.SetId(id) }, nil)
}

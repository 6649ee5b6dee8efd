package console

import (
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

func (s *server) invite(c vat.Call[schema.Console_invite_Params, schema.Console_invite_Results]) error {
	p := c.Params()
	subject, err := wire.Param(p.Subject())
	t := operator.InviteTerms{Expires: wire.Milliseconds(p.ExpiresInMs()), Source: wire.Keep[string](&err)(wire.Param(p.Source()))}
	if err != nil {
		return err
	}
	if s.locate == nil {
		return vfs.At(subject, vfs.Errorf(vfs.Unsupported, "this host makes no locators, so it cannot invite"))
	}
	if t.Permissions, err = wire.Permissions(wire.Texts(p.Permissions())); err != nil {
		return vfs.At(subject, err)
	}
	i, secret, err := s.host.Invite(c.Context(), subject, t)
	if err != nil {
		return vfs.At(subject, err)
	}
	w, err := c.Results().NewInvite()
	if err != nil {
		return err
	}
	return errors.Join(wire.SetInvite(w, i), c.Results().SetLocator(s.locate(secret)))
}

func (s *server) invites(c vat.Call[schema.Console_invites_Params, schema.Console_invites_Results]) error {
	all, err := s.host.Invites(c.Context())
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetAll(all, c.Results().NewInvites, wire.SetInvite)
}

func (s *server) revokeInvite(c vat.Call[schema.Console_revokeInvite_Params, schema.Console_revokeInvite_Results]) error {
	id, err := wire.Param(c.Params().Id())
	if err != nil {
		return err
	}
	return vfs.At(id, s.host.RevokeInvite(id))
}

package session

import (
	"errors"

	"capnproto.org/go/capnp/v3"

	"capd/cap/control"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

func (s *server) share(c vat.Call[schema.Session_share_Params, schema.Session_share_Results]) error {
	n, err := referred(c)
	if err != nil {
		return err
	}
	terms, err := wire.One(wire.Terms)(c.Params().Terms())
	if err != nil {
		return wire.Malformed(err)
	}
	given, secret, ctl, err := s.grants.Share(c.Context(), n, terms)
	if err != nil {
		return vfs.At("", err)
	}
	r := c.Results()
	return errors.Join(r.SetSecret(secret), r.SetId(given.ID), r.SetRevoker(c.Caps().Put(control.NewRevoker(ctl))))
}

// sharePage is how many shares a page has at most.
const sharePage = 256

func (s *server) shares(c vat.Call[schema.Session_shares_Params, schema.Session_shares_Results]) error {
	n, err := referred(c)
	if err != nil {
		return err
	}
	after, err := wire.Path(c.Params().AfterBytes())
	if err != nil {
		return err
	}
	all, err := s.grants.Shares(c.Context(), n, after, sharePage+1)
	if err != nil {
		return vfs.At("", err)
	}
	if len(all) > sharePage {
		all = all[:sharePage]
		c.Results().SetMore(true)
	}
	return wire.SetAll(all, c.Results().NewShares, wire.SetShare)
}

func (s *server) revokeShare(c vat.Call[schema.Session_revokeShare_Params, schema.Session_revokeShare_Results]) error {
	n, err := referred(c)
	if err != nil {
		return err
	}
	id, err := wire.Path(c.Params().IdBytes())
	if err != nil {
		return err
	}
	return vfs.At("", s.grants.RevokeShare(c.Context(), n, id))
}

// referred returns the node that the parameter ref of a call refers to.
func referred[P interface {
	~capnp.StructKind
	Ref() (schema.Ref, error)
}, R ~capnp.StructKind](c vat.Call[P, R]) (vfs.Node, error) {
	ref, err := c.Params().Ref()
	if err != nil {
		return nil, wire.Malformed(err)
	}
	n, err := node(c.Context(), ref, c.Caps())
	return n, vfs.At("", err)
}

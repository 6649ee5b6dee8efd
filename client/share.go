package client

import (
	"context"
	"errors"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/locator"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// ShareTerms are the terms of a share: how long, how often, and what it may store. Share describes a share.
type (
	ShareTerms = operator.ShareTerms
	Share      = operator.Share
)

// Share returns a locator for a *Dir or *File of this host, with exactly the same
// rights. It ends when the capability that it was made from is revoked or expires. The
// Revoker revokes it; closing the Revoker does not.
func (c *Conn) Share(ctx context.Context, n vfs.Node) (loc string, r *Revoker, err error) {
	_, loc, r, err = c.ShareOn(ctx, n, ShareTerms{})
	return loc, r, err
}

// ShareOn is Share on terms. id is what [Conn.RevokeShare] takes. A host of a version that knows no terms answers no id; if
// there are terms, ShareOn then takes the share back and answers unsupported.
func (c *Conn) ShareOn(ctx context.Context, n vfs.Node, t ShareTerms) (id, loc string, r *Revoker, err error) {
	id, loc, r, err = c.shareOn(ctx, n, t)
	if err != nil || id != "" || t == (ShareTerms{}) {
		return id, loc, r, err
	}
	defer r.Close()
	return "", "", nil, errors.Join(errNoTerms, r.Revoke(ctx))
}

var errNoTerms = vfs.Errorf(vfs.Unsupported, "the host is of a version that knows no terms of shares; share without terms, and revoke it in time")

func (c *Conn) shareOn(ctx context.Context, n vfs.Node, t ShareTerms) (id, loc string, r *Revoker, err error) {
	err = wire.Do(ctx, c.session, schema.Session_share, func(p schema.Session_share_Params, caps *vat.Caps) error {
		w, err := p.NewTerms()
		if err != nil {
			return err
		}
		if err := wire.SetTerms(w, t); err != nil {
			return err
		}
		return refer(n, caps, p.NewRef)
	}, func(res schema.Session_share_Results, caps *vat.Caps) error {
		secret, err := res.Secret()
		if err != nil {
			return err
		}
		if len(secret) != locator.SecretSize {
			return vfs.Errorf(vfs.Corrupt, "the host answered a secret of another length")
		}
		if id, err = res.Id(); err != nil {
			return err
		}
		revoker, err := wire.Held(caps.Get(res.Revoker()))
		if err != nil {
			return err
		}
		shared := c.loc // the same socket or address
		shared.Secret = [locator.SecretSize]byte(secret)
		loc, r = shared.String(), &Revoker{revoker}
		return nil
	})
	return id, loc, r, referred(n, err)
}

// refer makes a reference to n.
func refer(n vfs.Node, caps *vat.Caps, alloc func() (schema.Ref, error)) error {
	ref, err := alloc()
	if err != nil {
		return err
	}
	switch n := n.(type) {
	case *Dir:
		return n.lend(caps, ref.SetDir)
	case *File:
		return n.lend(caps, ref.SetFile)
	}
	return ref.SetDir(capnp.Interface{})
}

// referred returns the error of a call with a reference to n.
func referred(n vfs.Node, err error) error {
	switch n := n.(type) {
	case *Dir:
		return n.lent(err)
	case *File:
		return n.lent(err)
	}
	return err
}

// Shares returns the live shares of n, a *Dir or *File of this host, oldest first: what was shared from it, or from what
// was derived from it, by whatever connection, and what was shared from those.
func (c *Conn) Shares(ctx context.Context, n vfs.Node) (all []Share, err error) {
	for more, after := true, ""; more && err == nil; {
		var page []Share
		if page, more, err = c.sharesAfter(ctx, n, after); len(page) == 0 {
			break
		}
		all, after = append(all, page...), page[len(page)-1].ID
	}
	return all, err
}

func (c *Conn) sharesAfter(ctx context.Context, n vfs.Node, after string) (page []Share, more bool, err error) {
	err = wire.Do(ctx, c.session, schema.Session_shares, func(p schema.Session_shares_Params, caps *vat.Caps) error {
		if err := refer(n, caps, p.NewRef); err != nil {
			return err
		}
		return p.SetAfter(after)
	}, func(r schema.Session_shares_Results, _ *vat.Caps) error {
		more = r.More()
		page, err = wire.All(wire.Share)(r.Shares())
		return err
	})
	return page, more, referred(n, err)
}

// RevokeShare revokes the share of n with that id, as its Revoker does. It answers notFound for a share that does not come
// from n.
func (c *Conn) RevokeShare(ctx context.Context, n vfs.Node, id string) error {
	return referred(n, wire.Do(ctx, c.session, schema.Session_revokeShare, func(p schema.Session_revokeShare_Params, caps *vat.Caps) error {
		if err := refer(n, caps, p.NewRef); err != nil {
			return err
		}
		return p.SetId(id)
	}, nil))
}

// Revoker revokes what Revocable or Share returned.
type Revoker struct{ cap *vat.Cap }

// Revoke revokes the capability and everything derived from it, and waits until none of
// it can change anything. To call it again is no error. It answers busy if a change
// under way is stuck; call it again to wait again.
func (r *Revoker) Revoke(ctx context.Context) error {
	return wire.Do(ctx, r.cap, schema.Revoker_revoke, nil, nil)
}

// Close releases the revoker. It revokes nothing.
func (r *Revoker) Close() error {
	r.cap.Release()
	return nil
}

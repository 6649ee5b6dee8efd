// Package session serves the interface Session, the first capability of a guest's
// connection. A Session has no authority by itself: the secrets have it.
package session

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/cap/dir"
	"capd/cap/file"
	"capd/cap/petitioner"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Grants knows what secrets stand for.
type Grants interface {
	// Restore returns a new reference to the node that a secret stands for. It answers
	// denied for an unknown secret, and revoked or expired for an ended one. If wait is false it
	// answers vat.ErrWouldBlock instead of waiting.
	Restore(ctx context.Context, secret []byte, wait bool) (vfs.Node, error)
	// Share returns a new share of n, its secret, and a control that revokes it. n remains the
	// caller's. Share answers invalid for a node that no grant gave, and limit.
	Share(ctx context.Context, n vfs.Node, t operator.ShareTerms) (given operator.Share, secret []byte, ctl *membrane.Control, err error)
	// Shares returns at most max live shares of n after the one with the id after, which may be "". It answers notFound for
	// another id.
	Shares(ctx context.Context, n vfs.Node, after string, max int) ([]operator.Share, error)
	// RevokeShare revokes a share of n. It answers notFound for another id.
	RevokeShare(ctx context.Context, n vfs.Node, id string) error
	// Petition returns what the secret of an invitation stands for. It answers denied for an unknown secret, and
	// invalid for that of a grant.
	Petition(ctx context.Context, secret []byte) (petitioner.Petitions, error)
}

// New returns the Session of one connection.
func New(g Grants) *vat.Cap { return vat.Serve(table, &server{g}) }

type server struct{ grants Grants }

// What is restored without waiting is answered before later messages are read.
var table = vat.NewTable(
	vat.Handle(schema.Session_restore, (*server).restore, vat.Try()),
	vat.Handle(schema.Session_restoreDir, (*server).restoreDir, vat.Try()),
	vat.Handle(schema.Session_restoreFile, (*server).restoreFile, vat.Try()),
	vat.Handle(schema.Session_share, (*server).share),
	vat.Handle(schema.Session_shares, (*server).shares, vat.Heavy()),
	vat.Handle(schema.Session_revokeShare, (*server).revokeShare),
	wire.Help(schema.Session_help, help.Text),
	vat.Handle(schema.Session_restorePetitioner, (*server).restorePetitioner),
)

// restored returns the node that a secret stands for.
func restored[P interface {
	~capnp.StructKind
	Secret() ([]byte, error)
}, R ~capnp.StructKind](s *server, c vat.Call[P, R]) (vfs.Node, error) {
	secret, err := wire.Param(c.Params().Secret())
	if err != nil {
		return nil, err
	}
	n, err := s.grants.Restore(c.Context(), secret, !c.Trying())
	if err == vat.ErrWouldBlock {
		return nil, err
	}
	return n, vfs.At("", err)
}

func (s *server) restore(c vat.Call[schema.Session_restore_Params, schema.Session_restore_Results]) error {
	n, err := restored(s, c)
	if err != nil {
		return err
	}
	ref, err := c.Results().NewRef()
	if err != nil {
		n.Close()
		return err
	}
	if d, ok := n.(vfs.Dir); ok {
		return ref.SetDir(c.Caps().Put(dir.New(d)))
	}
	return ref.SetFile(c.Caps().Put(file.New(n.(vfs.File), "")))
}

func (s *server) restoreDir(c vat.Call[schema.Session_restoreDir_Params, schema.Session_restoreDir_Results]) error {
	n, err := restored(s, c)
	if err != nil {
		return err
	}
	d, err := vfs.AsDir(n)
	if err != nil {
		return vfs.At("", err)
	}
	return c.Results().SetDir(c.Caps().Put(dir.New(d)))
}

func (s *server) restoreFile(c vat.Call[schema.Session_restoreFile_Params, schema.Session_restoreFile_Results]) error {
	n, err := restored(s, c)
	if err != nil {
		return err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return vfs.At("", err)
	}
	return c.Results().SetFile(c.Caps().Put(file.New(f, "")))
}

func (s *server) restorePetitioner(c vat.Call[schema.Session_restorePetitioner_Params, schema.Session_restorePetitioner_Results]) error {
	secret, err := wire.Param(c.Params().Secret())
	if err != nil {
		return err
	}
	p, err := s.grants.Petition(c.Context(), secret)
	if err != nil {
		return vfs.At("", err)
	}
	return c.Results().SetPetitioner(c.Caps().Put(petitioner.New(p)))
}

var errNotOurs = vfs.Errorf(vfs.Invalid, "this takes a Dir or a File of this connection; make the call over the connection that yours came from")

// node returns the node behind a reference, if this process serves it.
func node(ctx context.Context, ref schema.Ref, caps *vat.Caps) (vfs.Node, error) {
	var c *vat.Cap
	switch ref.Which() {
	case schema.Ref_Which_dir:
		c = caps.Get(ref.Dir())
	case schema.Ref_Which_file:
		c = caps.Get(ref.File())
	}
	if c == nil {
		return nil, errNotOurs
	}
	if err := wire.Settle(ctx, c); err != nil {
		return nil, err
	}
	if d, ok := dir.Of(c); ok {
		if ref.Which() == schema.Ref_Which_file {
			return nil, vfs.Errorf(vfs.IsDir, "this is a Dir where a File belongs; pass it as ref.dir")
		}
		return d, nil
	}
	if f, ok := file.Of(c); ok {
		if ref.Which() == schema.Ref_Which_dir {
			return nil, vfs.Errorf(vfs.NotDir, "this is a File where a Dir belongs; pass it as ref.file")
		}
		return f, nil
	}
	return nil, errNotOurs
}

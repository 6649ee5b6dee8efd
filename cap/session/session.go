// Package session serves the interface Session, the first capability of a guest's
// connection. A Session has no authority by itself: the secrets have it.
package session

import (
	"context"
	"errors"

	"capnproto.org/go/capnp/v3"

	"capd/cap/control"
	"capd/cap/dir"
	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
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
	// Share returns a new secret for n, and a control that revokes it. n remains the
	// caller's. Share answers invalid for a node that no grant gave, and limit.
	Share(ctx context.Context, n vfs.Node) (secret []byte, ctl *membrane.Control, err error)
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
	wire.Help(schema.Session_help, help.Text),
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

func (s *server) share(c vat.Call[schema.Session_share_Params, schema.Session_share_Results]) error {
	ref, err := c.Params().Ref()
	if err != nil {
		return wire.Malformed(err)
	}
	n, err := node(c.Context(), ref, c.Caps())
	if err != nil {
		return vfs.At("", err)
	}
	secret, ctl, err := s.grants.Share(c.Context(), n)
	if err != nil {
		return vfs.At("", err)
	}
	return errors.Join(c.Results().SetSecret(secret), c.Results().SetRevoker(c.Caps().Put(control.NewRevoker(ctl))))
}

var errNotOurs = vfs.Errorf(vfs.Invalid, "share takes a Dir or a File of this connection; share a capability of another connection over that connection")

// node returns the node behind a reference, if this process serves it.
func node(ctx context.Context, ref schema.Ref, caps *vat.Caps) (vfs.Node, error) {
	var c *vat.Cap
	switch ref.Which() {
	case schema.Ref_Which_dir:
		c = caps.Get(ref.Dir())
	case schema.Ref_Which_file:
		c = caps.Get(ref.File())
	}
	if wire.Settle(ctx, c) != nil {
		return nil, errNotOurs
	}
	if d, ok := dir.Of(c); ok {
		if ref.Which() == schema.Ref_Which_file {
			return nil, vfs.Errorf(vfs.IsDir, "this is a Dir where a File belongs; share it as ref.dir")
		}
		return d, nil
	}
	if f, ok := file.Of(c); ok {
		if ref.Which() == schema.Ref_Which_dir {
			return nil, vfs.Errorf(vfs.NotDir, "this is a File where a Dir belongs; share it as ref.file")
		}
		return f, nil
	}
	return nil, errNotOurs
}

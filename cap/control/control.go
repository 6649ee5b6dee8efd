// Package control serves the controls of a capability: DirControl and FileControl for
// the host, and Revoker for a guest that derived the capability itself. It only
// translates.
package control

import (
	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// NewRevoker returns a Revoker for what ctl controls. It takes ctl over.
func NewRevoker(ctl *membrane.Control) *vat.Cap { return vat.Serve(revokerTable, &server{ctl}) }

var revokerTable = vat.NewTable(
	vat.Handle(schema.Revoker_revoke, revoke),
	wire.Help(schema.Revoker_help, help.Text),
)

// New returns a DirControl or a FileControl for ctl, according to its kind. It takes
// ctl over.
func New(ctl *membrane.Control) *vat.Cap {
	if ctl.Kind == vfs.DirKind {
		return vat.Serve(dirTable, &server{ctl})
	}
	return vat.Serve(fileTable, &server{ctl})
}

// Set stores a control for ctl in a Control of the results. It takes ctl over.
func Set(ctl *membrane.Control, caps *vat.Caps, alloc func() (schema.Control, error)) error {
	w, err := alloc()
	if err != nil {
		ctl.Release()
		return err
	}
	if ctl.Kind == vfs.DirKind {
		return w.SetDir(caps.Put(New(ctl)))
	}
	return w.SetFile(caps.Put(New(ctl)))
}

type server struct{ ctl *membrane.Control }

// Release releases the control. What was set remains, and what was derived lives on.
func (s *server) Release() { s.ctl.Release() }

var fileTable = vat.NewTable(
	vat.Handle(schema.FileControl_setWritable, setWritable),
	vat.Handle(schema.FileControl_getWritable, getWritable),
	vat.Handle(schema.FileControl_setReadable, setReadable),
	vat.Handle(schema.FileControl_getReadable, getReadable),
	vat.Handle(schema.FileControl_revoke, revoke),
	wire.Help(schema.FileControl_help, help.Text),
)

var dirTable *vat.Table

func init() { // not in the declaration: getChild uses dirTable
	dirTable = vat.NewTable(
		vat.Handle(schema.DirControl_setWritable, setWritable),
		vat.Handle(schema.DirControl_getWritable, getWritable),
		vat.Handle(schema.DirControl_setReadable, setReadable),
		vat.Handle(schema.DirControl_getReadable, getReadable),
		vat.Handle(schema.DirControl_revoke, revoke),
		vat.Handle(schema.DirControl_getChild, getChild),
		wire.Help(schema.DirControl_help, help.Text),
	)
}

func setWritable[P interface {
	~capnp.StructKind
	Writable() bool
}, R ~capnp.StructKind](s *server, c vat.Call[P, R]) error {
	return vfs.At("", s.ctl.SetWritable(c.Params().Writable()))
}

func getWritable[P ~capnp.StructKind, R interface {
	~capnp.StructKind
	SetWritable(bool)
	SetEffective(bool)
}](s *server, c vat.Call[P, R]) error {
	own, effective := s.ctl.Writable()
	r := c.Results()
	r.SetWritable(own)
	r.SetEffective(effective)
	return nil
}

func setReadable[P interface {
	~capnp.StructKind
	Readable() bool
}, R ~capnp.StructKind](s *server, c vat.Call[P, R]) error {
	return vfs.At("", s.ctl.SetReadable(c.Params().Readable()))
}

func getReadable[P ~capnp.StructKind, R interface {
	~capnp.StructKind
	SetReadable(bool)
	SetEffective(bool)
}](s *server, c vat.Call[P, R]) error {
	own, effective := s.ctl.Readable()
	r := c.Results()
	r.SetReadable(own)
	r.SetEffective(effective)
	return nil
}

func revoke[P, R ~capnp.StructKind](s *server, _ vat.Call[P, R]) error {
	return vfs.At("", s.ctl.Revoke())
}

func getChild(s *server, c vat.Call[schema.DirControl_getChild_Params, schema.DirControl_getChild_Results]) error {
	name, err := wire.EntryName(c.Params().NameBytes())
	if err != nil {
		return err
	}
	child, err := s.ctl.Child(c.Context(), name)
	if err != nil {
		return vfs.At(name, err)
	}
	return Set(child, c.Caps(), c.Results().NewControl)
}

// Package control serves the host's side of a capability: DirControl,
// FileControl and Console, and the Revoker that a guest gets for what it
// derived itself. It translates and decides nothing.
package control

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
)

// NewRevoker returns a Revoker for what ctl controls, which it takes over.
func NewRevoker(ctl *vfs.Control) *vat.Cap { return vat.Serve(revokerTable, &revoker{ctl}) }

type revoker struct{ ctl *vfs.Control }

// Release lets go of the gate; what was derived lives on.
func (r *revoker) Release() { r.ctl.Release() }

var revokerTable = vat.NewTable(
	vat.Handle(schema.Revoker_revoke, (*revoker).revoke),
	vat.Handle(schema.Revoker_help, (*revoker).help),
)

func (r *revoker) revoke(vat.Call[schema.Revoker_revoke_Params, schema.Revoker_revoke_Results]) error {
	return vfs.At("", r.ctl.Revoke())
}

func (r *revoker) help(c vat.Call[schema.Revoker_help_Params, schema.Revoker_help_Results]) error {
	return wire.Help(help.Text, "Revoker", c.Params().Method, c.Results)
}

// New returns a DirControl or FileControl for ctl, as its kind says; it takes
// ctl over.
func New(ctl *vfs.Control) *vat.Cap {
	if ctl.Kind == vfs.DirKind {
		return vat.Serve(dirTable, &dirControl{fileControl{ctl}})
	}
	return vat.Serve(fileTable, &fileControl{ctl})
}

// Set stores a control for ctl in a Control of the results.
func Set(ctl *vfs.Control, caps *vat.Caps, alloc func() (schema.Control, error)) error {
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

type fileControl struct{ ctl *vfs.Control }

type dirControl struct{ fileControl }

// Release lets go of the gate; what was set stays set.
func (f *fileControl) Release() { f.ctl.Release() }

var fileTable = vat.NewTable(
	vat.Handle(schema.FileControl_setWritable, func(f *fileControl, c vat.Call[schema.FileControl_setWritable_Params, schema.FileControl_setWritable_Results]) error {
		return f.setWritable(c.Params().Writable())
	}),
	vat.Handle(schema.FileControl_getWritable, func(f *fileControl, c vat.Call[schema.FileControl_getWritable_Params, schema.FileControl_getWritable_Results]) error {
		r, err := c.Results()
		if err != nil {
			return err
		}
		own, effective := f.ctl.Writable()
		r.SetWritable(own)
		r.SetEffective(effective)
		return nil
	}),
	vat.Handle(schema.FileControl_setReadable, func(f *fileControl, c vat.Call[schema.FileControl_setReadable_Params, schema.FileControl_setReadable_Results]) error {
		f.ctl.SetReadable(c.Params().Readable())
		return nil
	}),
	vat.Handle(schema.FileControl_getReadable, func(f *fileControl, c vat.Call[schema.FileControl_getReadable_Params, schema.FileControl_getReadable_Results]) error {
		r, err := c.Results()
		if err != nil {
			return err
		}
		own, effective := f.ctl.Readable()
		r.SetReadable(own)
		r.SetEffective(effective)
		return nil
	}),
	vat.Handle(schema.FileControl_revoke, func(f *fileControl, _ vat.Call[schema.FileControl_revoke_Params, schema.FileControl_revoke_Results]) error {
		return vfs.At("", f.ctl.Revoke())
	}),
	vat.Handle(schema.FileControl_help, func(_ *fileControl, c vat.Call[schema.FileControl_help_Params, schema.FileControl_help_Results]) error {
		return wire.Help(help.Text, "FileControl", c.Params().Method, c.Results)
	}),
)

func (f *fileControl) setWritable(on bool) error { return vfs.At("", f.ctl.SetWritable(on)) }

var dirTable *vat.Table

func init() { // its methods make more of its kind
	dirTable = vat.NewTable(
		vat.Handle(schema.DirControl_setWritable, func(d *dirControl, c vat.Call[schema.DirControl_setWritable_Params, schema.DirControl_setWritable_Results]) error {
			return d.setWritable(c.Params().Writable())
		}),
		vat.Handle(schema.DirControl_getWritable, func(d *dirControl, c vat.Call[schema.DirControl_getWritable_Params, schema.DirControl_getWritable_Results]) error {
			r, err := c.Results()
			if err != nil {
				return err
			}
			own, effective := d.ctl.Writable()
			r.SetWritable(own)
			r.SetEffective(effective)
			return nil
		}),
		vat.Handle(schema.DirControl_setReadable, func(d *dirControl, c vat.Call[schema.DirControl_setReadable_Params, schema.DirControl_setReadable_Results]) error {
			d.ctl.SetReadable(c.Params().Readable())
			return nil
		}),
		vat.Handle(schema.DirControl_getReadable, func(d *dirControl, c vat.Call[schema.DirControl_getReadable_Params, schema.DirControl_getReadable_Results]) error {
			r, err := c.Results()
			if err != nil {
				return err
			}
			own, effective := d.ctl.Readable()
			r.SetReadable(own)
			r.SetEffective(effective)
			return nil
		}),
		vat.Handle(schema.DirControl_revoke, func(d *dirControl, _ vat.Call[schema.DirControl_revoke_Params, schema.DirControl_revoke_Results]) error {
			return vfs.At("", d.ctl.Revoke())
		}),
		vat.Handle(schema.DirControl_getChild, func(d *dirControl, c vat.Call[schema.DirControl_getChild_Params, schema.DirControl_getChild_Results]) error {
			name, err := wire.Text(c.Params().Name())
			if err != nil {
				return err
			}
			child, err := d.ctl.Child(c.Context(), name)
			if err != nil {
				return vfs.At(name, err)
			}
			r, err := c.Results()
			if err != nil {
				child.Release()
				return err
			}
			return Set(child, c.Caps(), r.NewControl)
		}),
		vat.Handle(schema.DirControl_help, func(_ *dirControl, c vat.Call[schema.DirControl_help_Params, schema.DirControl_help_Results]) error {
			return wire.Help(help.Text, "DirControl", c.Params().Method, c.Results)
		}),
	)
}

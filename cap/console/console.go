// Package console serves what the operator of a host holds: the interface
// Console. It translates and decides nothing.
package console

import (
	"errors"

	"capd/authority"
	"capd/cap/control"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
)

// New returns a Console for h. locate makes a locator of a secret. process, if
// it is given, says what h does not know for the method status.
func New(h *authority.Host, locate func(secret [32]byte) string, process ...func() Process) *vat.Cap {
	s := &server{h, locate, unknown}
	for _, f := range process {
		s.process = f
	}
	return vat.Serve(table, s)
}

type server struct {
	host    *authority.Host
	locate  func([32]byte) string
	process func() Process
}

var table = vat.NewTable(
	vat.Handle(schema.Console_grant, (*server).grant),
	vat.Handle(schema.Console_list, (*server).list),
	vat.Handle(schema.Console_revoke, (*server).revoke),
	vat.Handle(schema.Console_setWritable, (*server).setWritable),
	vat.Handle(schema.Console_control, (*server).control),
	vat.Handle(schema.Console_help, (*server).help),
	vat.Handle(schema.Console_status, (*server).status),
)

func (s *server) grant(c vat.Call[schema.Console_grant_Params, schema.Console_grant_Results]) error {
	guest, err := wire.Text(c.Params().Guest())
	if err != nil {
		return err
	}
	path, err := wire.Text(c.Params().Path())
	if err != nil {
		return err
	}
	g, secret, err := s.host.Grant(c.Context(), guest, path, c.Params().ReadOnly())
	if err != nil {
		return err
	}
	ctl, err := s.host.Control(g.ID)
	if err != nil {
		return err
	}
	r, err := c.Results()
	if err != nil {
		ctl.Release()
		return err
	}
	if err := control.Set(ctl, c.Caps(), r.NewControl); err != nil {
		return err
	}
	w, err := r.NewGrant()
	if err != nil {
		return err
	}
	if err := SetGrant(w, g); err != nil {
		return err
	}
	return r.SetLocator(s.locate(secret))
}

var modes = map[authority.Mode]schema.Grant_Mode{
	authority.ReadWrite: schema.Grant_Mode_readWrite, authority.ReadOnly: schema.Grant_Mode_readOnly,
}

var states = map[authority.State]schema.Grant_State{
	authority.Active: schema.Grant_State_active, authority.Locked: schema.Grant_State_locked,
	authority.Revoked: schema.Grant_State_revoked,
}

// SetGrant writes g, and Grant reads it.
func SetGrant(w schema.Grant, g authority.Grant) error {
	w.SetMode(modes[g.Mode])
	w.SetState(states[g.State])
	return errors.Join(w.SetGuest(g.Guest), w.SetId(g.ID), w.SetPath(g.Path), w.SetParent(g.Parent))
}

// Grant reads what SetGrant wrote.
func Grant(w schema.Grant) (g authority.Grant, err error) {
	for have, m := range modes {
		if m == w.Mode() {
			g.Mode = have
		}
	}
	for have, st := range states {
		if st == w.State() {
			g.State = have
		}
	}
	if g.Guest, err = w.Guest(); err != nil {
		return g, err
	}
	if g.ID, err = w.Id(); err != nil {
		return g, err
	}
	if g.Path, err = w.Path(); err != nil {
		return g, err
	}
	g.Parent, err = w.Parent()
	return g, err
}

func (s *server) list(c vat.Call[schema.Console_list_Params, schema.Console_list_Results]) error {
	after, err := wire.Text(c.Params().After())
	if err != nil {
		return err
	}
	gs, err := s.host.Grants(after)
	if err != nil {
		return vfs.At(after, err)
	}
	limit := wire.PageSize(c.Params().Limit())
	r, err := c.Results()
	if err != nil {
		return err
	}
	if len(gs) > limit {
		gs = gs[:limit]
		r.SetMore(true)
	}
	l, err := r.NewGrants(int32(len(gs)))
	if err != nil {
		return err
	}
	for i, g := range gs {
		if err := SetGrant(l.At(i), g); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) revoke(c vat.Call[schema.Console_revoke_Params, schema.Console_revoke_Results]) error {
	guest, err := wire.Text(c.Params().Guest())
	if err != nil {
		return err
	}
	n, err := s.host.Revoke(guest)
	if err != nil {
		return vfs.At(guest, err)
	}
	r, err := c.Results()
	if err != nil {
		return err
	}
	r.SetCount(uint32(n))
	return nil
}

func (s *server) setWritable(c vat.Call[schema.Console_setWritable_Params, schema.Console_setWritable_Results]) error {
	guest, err := wire.Text(c.Params().Guest())
	if err != nil {
		return err
	}
	n, err := s.host.SetWritable(guest, c.Params().Writable())
	if err != nil {
		return vfs.At(guest, err)
	}
	r, err := c.Results()
	if err != nil {
		return err
	}
	r.SetCount(uint32(n))
	return nil
}

func (s *server) control(c vat.Call[schema.Console_control_Params, schema.Console_control_Results]) error {
	id, err := wire.Text(c.Params().Id())
	if err != nil {
		return err
	}
	ctl, err := s.host.Control(id)
	if err != nil {
		return vfs.At(id, err)
	}
	r, err := c.Results()
	if err != nil {
		ctl.Release()
		return err
	}
	return control.Set(ctl, c.Caps(), r.NewControl)
}

func (s *server) help(c vat.Call[schema.Console_help_Params, schema.Console_help_Results]) error {
	return wire.Help(help.Text, "Console", c.Params().Method, c.Results)
}

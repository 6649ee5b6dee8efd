// Package console serves the interface Console, which the operator of a host holds. It
// only translates: the authority decides.
package console

import (
	"capd/authority"
	"capd/cap/control"
	served "capd/cap/virtualfs"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// Options are what the authority does not know. The zero value is valid: then the
// status lacks Process, and the methods that need a nil field are unsupported.
type Options struct {
	Process   func() operator.Process // for the method status
	VirtualFs served.Host             // changes the composition of the authority's tree
	Approvals operator.Approvals      // for the methods about changes that need an approval
	Events    operator.Events         // for the method events
	Rules     operator.Rulebook       // without it policy, setPolicy and policies are unsupported
	Hooks     operator.Hooks          // for the methods about hooks
}

// New returns a Console for h. locate makes a locator of a secret. If it is nil, the
// method grant is unsupported.
func New(h *authority.Host, locate func(secret [32]byte) string, o Options) *vat.Cap {
	if o.Process == nil {
		o.Process = unknown
	}
	return vat.Serve(table, &server{host: h, locate: locate, options: o})
}

type server struct {
	host    *authority.Host
	locate  func([32]byte) string
	options Options
	own     ownHooks
}

var table = vat.NewTable(
	vat.Handle(schema.Console_grant, (*server).grant),
	vat.Handle(schema.Console_list, (*server).list),
	vat.Handle(schema.Console_revoke, (*server).revoke),
	vat.Handle(schema.Console_setWritable, (*server).setWritable),
	vat.Handle(schema.Console_control, (*server).control),
	wire.Help(schema.Console_help, help.Text),
	vat.Handle(schema.Console_status, (*server).status),
	vat.Handle(schema.Console_virtualFs, (*server).virtualFs),
	vat.Handle(schema.Console_setLimits, (*server).setLimits),
	vat.Handle(schema.Console_usage, (*server).usage),
	vat.Handle(schema.Console_roots, (*server).roots),
	vat.Handle(schema.Console_asks, (*server).asks),
	vat.Handle(schema.Console_showAsk, (*server).showAsk),
	vat.Handle(schema.Console_decide, (*server).decide),
	vat.Handle(schema.Console_approvals, (*server).standing),
	vat.Handle(schema.Console_endApproval, (*server).endApproval),
	vat.Handle(schema.Console_events, (*server).events),
	vat.Handle(schema.Console_policy, (*server).policy),
	vat.Handle(schema.Console_explain, (*server).explain, vat.Heavy()),
	vat.Handle(schema.Console_setPolicy, (*server).setPolicy),
	vat.Handle(schema.Console_policies, (*server).policies),
	vat.Handle(schema.Console_checkpoint, (*server).checkpoint),
	vat.Handle(schema.Console_addHook, (*server).addHook),
	vat.Handle(schema.Console_hooks, (*server).listHooks),
	vat.Handle(schema.Console_removeHook, (*server).removeHook),
	vat.Handle(schema.Console_invite, (*server).invite),
	vat.Handle(schema.Console_invites, (*server).invites),
	vat.Handle(schema.Console_revokeInvite, (*server).revokeInvite),
	vat.Handle(schema.Console_history, (*server).history, vat.Heavy()),
	vat.Handle(schema.Console_undo, (*server).undo, vat.Heavy()),
)

func (s *server) grant(c vat.Call[schema.Console_grant_Params, schema.Console_grant_Results]) error {
	guest, err := wire.Param(c.Params().Guest())
	path := wire.Keep[string](&err)(wire.Path(c.Params().PathBytes()))
	if err != nil {
		return err
	}
	if s.locate == nil {
		return vfs.At(path, vfs.Errorf(vfs.Unsupported, "this host makes no locators, so it cannot grant"))
	}
	t, err := terms(c.Params())
	if err != nil {
		return vfs.At(path, err)
	}
	g, secret, err := s.host.GrantOn(c.Context(), guest, path, t)
	if err != nil {
		return err
	}
	ctl, err := s.host.Control(c.Context(), g.ID)
	if err != nil {
		return err
	}
	r := c.Results()
	if err := control.Set(ctl, c.Caps(), r.NewControl); err != nil {
		return err
	}
	w, err := r.NewGrant()
	if err != nil {
		return err
	}
	if err := wire.SetGrant(w, g); err != nil {
		return err
	}
	return r.SetLocator(s.locate(secret))
}

// terms reads the terms of a grant.
func terms(p schema.Console_grant_Params) (t operator.Terms, err error) {
	t = operator.Terms{ReadOnly: p.ReadOnly(), BeyondDefault: p.BeyondDefault(), Uses: p.Uses(), Links: p.Links(), Scratch: p.ScratchBytes(),
		Expires: wire.Milliseconds(p.ExpiresInMs()), Unused: wire.Milliseconds(p.UnusedMs())}
	if t.Scratch < 0 {
		return t, vfs.Errorf(vfs.Invalid, "scratchBytes is below 0; write how much the guest may keep, or 0 for none")
	}
	if t.Limits, err = wire.Limits(wire.Sound[schema.Limit_List](p.HasLimits())(p.Limits())); err != nil {
		return t, err
	}
	if t.Root, err = wire.Param(p.Root()); err != nil || !p.HasRights() {
		return t, err
	}
	t.Rights, err = wire.Rights(wire.Sound[schema.Right_List](true)(p.Rights()))
	if err == nil && t.Rights == 0 {
		err = vfs.Errorf(vfs.Invalid, "rights names none that this host knows; leave it out for what is usual")
	}
	return t, err
}

func (s *server) list(c vat.Call[schema.Console_list_Params, schema.Console_list_Results]) error {
	after, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	gs, more, err := pageOf(s.host.Grants, after, wire.PageSize(c.Params().Limit()))
	if err != nil {
		return err
	}
	r := c.Results()
	r.SetMore(more)
	return wire.SetAll(gs, r.NewGrants, wire.SetGrant)
}

// pageOf returns at most limit grants that come after the one with the id after, and
// whether there are more.
func pageOf[G any](list func(after string, max int) ([]G, error), after string, limit int) (gs []G, more bool, err error) {
	gs, err = list(after, limit+1)
	if err != nil {
		return nil, false, vfs.At(after, err)
	}
	if more = len(gs) > limit; more {
		gs = gs[:limit]
	}
	return gs, more, nil
}

func (s *server) revoke(c vat.Call[schema.Console_revoke_Params, schema.Console_revoke_Results]) error {
	guest, err := wire.Param(c.Params().Guest())
	if err != nil {
		return err
	}
	n, err := s.host.Revoke(guest)
	c.Results().SetCount(uint32(n))
	return vfs.At(guest, err)
}

func (s *server) setWritable(c vat.Call[schema.Console_setWritable_Params, schema.Console_setWritable_Results]) error {
	guest, err := wire.Param(c.Params().Guest())
	if err != nil {
		return err
	}
	n, err := s.host.SetWritable(guest, c.Params().Writable())
	c.Results().SetCount(uint32(n))
	return vfs.At(guest, err)
}

func (s *server) control(c vat.Call[schema.Console_control_Params, schema.Console_control_Results]) error {
	id, err := wire.Param(c.Params().Id())
	if err != nil {
		return err
	}
	ctl, err := s.host.Control(c.Context(), id)
	if err != nil {
		return vfs.At(id, err)
	}
	return control.Set(ctl, c.Caps(), c.Results().NewControl)
}

func (s *server) virtualFs(c vat.Call[schema.Console_virtualFs_Params, schema.Console_virtualFs_Results]) error {
	if s.options.VirtualFs == nil {
		return vfs.At("", vfs.Errorf(vfs.Unsupported, "this host serves a fixed tree"))
	}
	return c.Results().SetFs(c.Caps().Put(served.New(s.options.VirtualFs)))
}

package authority

import (
	"context"
	"errors"
	"slices"
	"strings"

	"capd/approval"
	"capd/database"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Petitioner asks for grants as the subject of an invitation. It gives no access by itself. It is safe for concurrent
// use. Its holder closes it.
type Petitioner struct {
	host *Host
	by   *invitation
}

// Petitioner returns what the secret of an invitation stands for. It answers denied for a secret that this host does
// not know, invalid for that of a grant, and revoked or expired.
func (h *Host) Petitioner(ctx context.Context, secret []byte) (*Petitioner, error) {
	p, err := h.petitioner(ctx, secret)
	h.unrestored(0, err)
	return p, err
}

func (h *Host) petitioner(ctx context.Context, secret []byte) (*Petitioner, error) {
	if len(secret) != locator.SecretSize {
		return nil, errNoLocator
	}
	d := digestOf(secret)
	if !h.secrets.may(d) {
		return nil, errNoLocator
	}
	number, err := h.numberOfInvite(ctx, d)
	if err == errNoLocator {
		if _, known := h.known(ctx, d); known == nil {
			err = vfs.Errorf(vfs.Invalid, "this locator is that of a grant, and not an invitation; restore it")
		}
	}
	if err != nil {
		return nil, err
	}
	by := h.invited.use(number) // before the row is read: whoever ends it meanwhile finds it here
	p := &Petitioner{host: h, by: by}
	if err := h.learn(ctx, by); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// learn reads what the invitation i says. It answers why that has ended.
func (h *Host) learn(ctx context.Context, i *invitation) error {
	h.invited.terms.RLock()
	defer h.invited.terms.RUnlock()
	all, _, err := h.findInvites(ctx, "WHERE id=?", i.number)
	switch {
	case err != nil:
		return err
	case len(all) == 0 || all[0].State == operator.Revoked:
		return vfs.Revoked
	case all[0].State == operator.Expired:
		return vfs.Expired
	}
	h.invited.say(i.number, all[0])
	if all[0].ExpiresMs != 0 {
		h.tickOn()
	}
	return nil
}

// data returns the invitation as it is now.
func (p *Petitioner) data() operator.Invite {
	p.host.invited.mu.Lock()
	defer p.host.invited.mu.Unlock()
	return p.by.Invite
}

// Invite returns the id of the invitation.
func (p *Petitioner) Invite() string { return p.data().ID }

// OnEnd calls f with why, once the invitation was revoked or has expired, unless stop is called before.
func (p *Petitioner) OnEnd(f func(why error)) (stop func() bool) {
	return context.AfterFunc(p.by.ctx, func() { f(context.Cause(p.by.ctx)) })
}

// Close lets go of the invitation. What was granted stays.
func (p *Petitioner) Close() { p.host.invited.leave(p.by) }

// live answers why the invitation has ended, or nil.
func (p *Petitioner) live() error {
	if err := context.Cause(p.by.ctx); err != nil {
		return err
	}
	if at := p.data().ExpiresMs; at != 0 && at <= p.host.clock.Now() {
		return vfs.Expired
	}
	return nil
}

// Roots returns the roots that the subject may ask for.
func (p *Petitioner) Roots() ([]operator.Offer, error) {
	if err := p.live(); err != nil {
		return nil, err
	}
	var all []operator.Offer
	for _, r := range p.host.Roots() {
		if o, ok := p.offer(r); ok {
			all = append(all, o)
		}
	}
	return all, nil
}

// offer returns what the subject may ask for in r. It is false for a root of which the subject is not told.
func (p *Petitioner) offer(r operator.Root) (o operator.Offer, ok bool) {
	by := p.data()
	most := policy.Defaults(r.Kind, by.Subject.Kind()).Most
	if r.Kind == operator.Secret || most == 0 {
		return o, false
	}
	return operator.Offer{ID: r.ID, Kind: r.Kind, Name: r.Name, Labels: r.Labels, Rights: most, Granted: most & operator.Permitted(p.host.permissions(by), r.Kind)}, true
}

// wish is what somebody asks for, once it is known that it could be given.
type wish struct {
	approval.Request
	offer operator.Offer
	path  string // in the host's tree
}

// wish checks w. What is there is not looked at: that is for those who may see it.
func (p *Petitioner) wish(w operator.Wish) (out wish, err error) {
	id, at, below := strings.Cut(w.Root, "/")
	roots := p.host.Roots()
	i := slices.IndexFunc(roots, func(r operator.Root) bool { return r.ID == id })
	ok := i >= 0
	if ok {
		out.offer, ok = p.offer(roots[i])
	}
	switch {
	case !ok:
		return out, vfs.Errorf(vfs.NotFound, "there is no such root to ask for; roots() lists those that there are")
	case w.Rights == 0:
		return out, vfs.Errorf(vfs.Invalid, "say which rights are asked for, at least one")
	case w.Rights&^out.offer.Rights != 0:
		return out, vfs.Errorf(vfs.Denied, "nobody of this kind gets %s there; ask for some of %s", w.Rights&^out.offer.Rights, out.offer.Rights)
	case len(w.Reason) > operator.MaxReason:
		return out, vfs.Errorf(vfs.TooLarge, "a reason has at most %d bytes", operator.MaxReason)
	case w.File && at == "":
		return out, vfs.Errorf(vfs.Invalid, "a file is asked for as ROOT/PATH")
	case below:
		if _, err := vfs.SplitPath(at); err != nil {
			return out, err
		}
		if at == "" {
			return out, vfs.Errorf(vfs.Invalid, "a root is asked for by its id alone, and what is in it as ID/PATH")
		}
	}
	out.path, _, err = p.host.roots.Load().Find(policy.Wanted{Subject: p.data().Subject, Root: id, Path: at, Rights: w.Rights})
	out.Request = approval.Request{Subject: p.data().Subject, Root: id, At: at, File: w.File, Access: w.Rights, Invite: p.by.number, Words: w.Reason}
	return out, untold(err)
}

// untold returns err without what the host alone may know: which roots lie where.
func untold(err error) error {
	if b, ok := errors.AsType[*policy.Beyond](err); ok {
		return &vfs.Error{Code: vfs.Denied, Msg: "this is not given to who asks; ask for another root, or for less of this one", Cause: b}
	}
	return err
}

// Request returns a reference to what w asks for, and the meter in which its use counts, once somebody has said yes. It
// does not wait if that is given without asking, or was decided about an equal wish in the last [approval.Holds].
func (p *Petitioner) Request(ctx context.Context, w operator.Wish) (vfs.Node, *meter.Meter, error) {
	if err := p.live(); err != nil {
		return nil, nil, err
	}
	want, err := p.wish(w)
	if err != nil {
		return nil, nil, err
	}
	id, err := p.granted(ctx, &want)
	if err != nil {
		return nil, nil, untold(err)
	}
	g, err := p.host.load(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return p.host.reference(g)
}

// granted returns the number of the grant that answers w, which is made if there is none yet.
func (p *Petitioner) granted(ctx context.Context, w *wish) (int64, error) {
	had, err := p.host.answered(ctx, w)
	if err != nil || had.lasting && had.live() {
		return had.grant, err
	}
	preset := false
	if w.Access&^w.offer.Granted == 0 {
		if preset, err = p.preset(ctx, w); err != nil {
			return 0, err
		}
	}
	if preset {
		return p.host.make(ctx, w, nil, operator.Terms{Rights: w.Access, Source: p.giver(w)})
	}
	yes, err := p.ask(ctx, w)
	if err != nil {
		return 0, err
	}
	if err := p.live(); err != nil {
		return 0, err
	}
	return p.host.make(ctx, w, yes, termsOf(yes.Verdict(), w.Access))
}

// preset reports whether w, which is within the permissions of the subject, is given without asking. What was given so
// and then taken back is asked about, until there is another invitation.
func (p *Petitioner) preset(ctx context.Context, w *wish) (yes bool, err error) {
	by := p.data()
	err = p.host.db.Read(ctx, func(rows *database.Rows) error {
		return rows.Row("SELECT NOT EXISTS(SELECT 1 FROM grants WHERE name=? AND parent IS NULL AND root=? AND source IN (?, ?) AND ended=? AND ended_at>=?)",
			by.Subject.Name(), w.Root, by.Source, operator.ByManifest, revoked, by.MadeMs).Scan(&yes)
	})
	return yes, err
}

// termsOf returns the terms of a grant by v. One that was given once ends when no connection uses it any more.
func termsOf(v operator.Verdict, asked membrane.Rights) operator.Terms {
	t := operator.Terms{Rights: v.Rights, Source: operator.ByApproval}
	if t.Rights == 0 {
		t.Rights = asked
	}
	switch {
	case v.Answer == operator.Once:
		t.Unused = approval.Holds
	case v.For != 0:
		t.Expires = v.For
	default:
		t.Expires = operator.StandingFor
	}
	return t
}

// ask waits for a decision about w, until the invitation ends.
func (p *Petitioner) ask(ctx context.Context, w *wish) (*approval.Approval, error) {
	if p.host.asks == nil {
		return nil, errNoDesk
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.by.ctx, func() { cancel(context.Cause(p.by.ctx)) })()
	return p.host.asks.Ask(ctx, approval.Asked{Guest: p.data().Subject.Name(), Operation: "request", Path: w.path, Request: &w.Request})
}

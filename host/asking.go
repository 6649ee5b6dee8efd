package host

import (
	"context"
	"slices"
	"time"

	"capd/authority"
	"capd/cap/petitioner"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// maxAskers is how many connections use one invitation. The one that has used it longest gives way.
const maxAskers = 4

// asking is an invitation that a connection uses. It implements [petitioner.Petitions].
type asking struct {
	t    *seat
	p    *authority.Petitioner
	ctx  context.Context // ends when the connection may ask no more, with why
	end  context.CancelCauseFunc
	stop func() bool
	refs int // Petitioners that the guest holds. Server.mu guards it
}

// Petition implements session.Grants. The connection stays a stranger, whose calls count as those of one, but it may be
// silent, and need not give way to others.
func (t *seat) Petition(ctx context.Context, secret []byte) (petitioner.Petitions, error) {
	p, err := t.s.host.Petitioner(ctx, secret)
	if err != nil {
		t.fail()
		return nil, err
	}
	a, goes, err := t.join(p)
	if a == nil || a.p != p {
		p.Close() // it has the invitation already
	}
	if goes != nil {
		goes.lose(vfs.Errorf(vfs.Limit, "%d other connections use this invitation; it is for one at a time", maxAskers))
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// join notes that the connection uses the invitation of p. goes is another that has to give way.
func (t *seat) join(p *authority.Petitioner) (a, goes *asking, err error) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(t.asks, func(a *asking) bool { return a.p.Invite() == p.Invite() }); i >= 0 {
		t.asks[i].refs++
		return t.asks[i], nil, nil
	}
	if t.ended {
		return nil, nil, vfs.Stale
	}
	if t.stranger.at != nil {
		if int64(s.aside) >= s.strange.Limit(meter.Connections)/2 {
			return nil, nil, vfs.Errorf(vfs.Limit, "too many connections use invitations; try again later")
		}
		s.strangers.remove(&t.stranger)
		s.setAside(&t.stranger, true)
		t.conn.SetIdleTimeout(0)
	}
	a = &asking{t: t, p: p, refs: 1}
	a.ctx, a.end = context.WithCancelCause(context.Background())
	a.stop = p.OnEnd(a.lose)
	t.asks = append(t.asks, a)
	all := append(s.askers[p.Invite()], a)
	if len(all) > maxAskers {
		goes = all[0]
	}
	s.askers[p.Invite()] = all
	return a, goes, nil
}

// setAside says whether who is a stranger that need not give way. s.mu is held.
func (s *Server) setAside(who *stranger, on bool) {
	if who.aside != on {
		who.aside = on
		if on {
			s.aside++
		} else {
			s.aside--
		}
	}
}

// drop forgets a. s.mu is held.
func (s *Server) drop(a *asking) {
	id := a.p.Invite()
	if s.askers[id] = slices.DeleteFunc(s.askers[id], func(o *asking) bool { return o == a }); len(s.askers[id]) == 0 {
		delete(s.askers, id)
	}
	a.t.asks = slices.DeleteFunc(a.t.asks, func(o *asking) bool { return o == a })
}

// lose ends what the connection asks by a. The connection ends when it holds nothing else.
func (a *asking) lose(why error) {
	a.end(why)
	t := a.t
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	a.stop()
	t.s.drop(a)
	if !t.ended && len(t.live) == 0 && len(t.asks) == 0 {
		time.AfterFunc(t.s.nextEnd(), func() { t.end(why) })
	}
}

// Release implements petitioner.Petitions. A connection that holds nothing any more is a stranger like others.
func (a *asking) Release() {
	t := a.t
	t.s.mu.Lock()
	a.refs--
	last := a.refs == 0
	if last {
		t.s.drop(a)
		if !t.ended && len(t.live) == 0 && len(t.asks) == 0 && t.stranger.aside {
			t.s.setAside(&t.stranger, false)
			t.s.strangers.add(&t.stranger)
			t.conn.SetIdleTimeout(StrangerIdle)
		}
	}
	t.s.mu.Unlock()
	if last {
		a.stop()
		a.end(context.Canceled)
		a.p.Close()
	}
}

// Roots implements petitioner.Petitions.
func (a *asking) Roots() ([]operator.Offer, error) {
	if err := context.Cause(a.ctx); err != nil {
		return nil, err
	}
	return a.p.Roots()
}

// Request implements petitioner.Petitions. What is granted belongs to the connection.
func (a *asking) Request(ctx context.Context, w operator.Wish) (vfs.Node, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(context.Cause(a.ctx)) })()
	if err := context.Cause(a.ctx); err != nil {
		return nil, err
	}
	n, m, err := a.p.Request(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := a.t.hold(n, m); err != nil {
		return nil, err
	}
	return n, nil
}

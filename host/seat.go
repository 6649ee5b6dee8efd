package host

import (
	"cmp"
	"context"
	"net"
	"slices"
	"syscall"
	"time"

	"capd/authority"
	"capd/cap/session"
	"capd/cap/wire"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

const (
	// StrangerIdle is roughly how long a stranger may send nothing. A connection that holds a grant
	// may be silent for ever.
	StrangerIdle = time.Minute
	// Afterlife is how long a connection stays after everything that it had restored was taken
	// back, so that its calls are still answered.
	Afterlife = 250 * time.Millisecond
)

// maxFailures is how many unknown locators a stranger may show.
const maxFailures = 32

// guestCallBytes is how many bytes the open calls of one connection may hold, unless Options sets
// another limit.
const guestCallBytes = 24 << 20

// seat is a guest's connection, as the server counts it. It is a stranger until it has restored
// something. From then on it holds a grant. Its connection's Session gets nodes from it. Server.mu
// guards it.
type seat struct {
	s        *Server
	raw      syscall.RawConn // its socket, or nil
	conn     *vat.Conn
	came     time.Time
	stranger stranger
	live     []hold         // restored, and not taken back
	asks     []*asking      // invitations that it uses
	counts   []*meter.Meter // meters in which it counts as a connection, one for each root grant; see settle
	payer    *meter.Meter   // the meter in which its calls count; nil: the strangers'
	failures int
	ended    bool
}

// hold is a grant, or a share, that a connection has restored.
type hold struct {
	meter *meter.Meter // the meter of the grant or share
	stop  func()       // stops watching for the end of the grant
}

// Guest serves one guest on nc, and takes over nc. It closes nc and returns nil when there is no
// room, or when the other end has gone. When there is no room, and every stranger has just sent
// something or just come, it waits up to 50 ms for room.
func (s *Server) Guest(nc net.Conn) *vat.Conn {
	t := &seat{s: s, raw: rawOf(nc)}
	if gone, _ := glance(t.raw); gone {
		hangUp(nc)
		return nil
	}
	t.stranger = stranger{from: originOf(nc), standing: t.standing, leave: func() { hangUp(nc) }}
	if !s.room() {
		if t.raw == nil {
			hangUp(nc)
			return nil
		}
		vat.Refuse(nc, wire.Encode(errNoRoom).Reason)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := s.o.Limits
	limits.CallBytes = cmp.Or(limits.CallBytes, guestCallBytes)
	t.conn = s.add(nc, limits, s.strange, session.New(t), t.leave)
	if t.conn == nil {
		s.strange.Give(meter.Connections, 1)
		return nil
	}
	t.came = time.Now()
	t.conn.SetIdleTimeout(StrangerIdle)
	s.strangers.add(&t.stranger)
	return t.conn
}

// For how long no stranger is sent away: until its first message has come, and then until its next.
const (
	timeToSpeak = 10 * time.Millisecond
	timeToGoOn  = 25 * time.Millisecond
)

// standing returns what the stranger has done so far.
func (t *seat) standing() standing {
	any, now := t.conn.Heard()
	age := time.Since(t.came)
	if _, spoke := glance(t.raw); spoke || now || age < timeToSpeak {
		return speaking
	}
	switch {
	case !any:
		return silent
	case age < timeToGoOn:
		return speaking
	}
	return heard
}

// leave gives up the seat. s.mu is held.
func (t *seat) leave() {
	t.ended = true
	t.s.part(&t.stranger)
	for _, a := range slices.Clone(t.asks) {
		t.s.drop(a)
	}
	for _, m := range t.counts {
		m.Give(meter.Connections, 1)
	}
	for _, h := range t.live {
		if h.stop != nil {
			h.stop()
		}
	}
	t.counts, t.live = nil, nil
}

// Restore implements session.Grants.
func (t *seat) Restore(ctx context.Context, secret []byte, wait bool) (vfs.Node, error) {
	n, m, err := t.s.host.TryRestore(secret)
	if err == authority.ErrWouldWait {
		if !wait {
			return nil, vat.ErrWouldBlock
		}
		n, m, err = t.s.host.Restore(ctx, secret)
	}
	if err != nil {
		t.fail()
		return nil, err
	}
	if err := t.hold(n, m); err != nil {
		return nil, err
	}
	return n, nil
}

// fail notes that the guest has shown an unknown locator.
func (t *seat) fail() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.strangers.fail(&t.stranger)
	if t.failures++; t.failures == maxFailures && (t.stranger.at != nil || t.stranger.aside) {
		go t.conn.Abort("limit: too many locators that lead nowhere")
	}
}

// hold notes that the connection has restored n, which belongs to the grant with meter m. If the
// connection cannot be counted there, hold closes n.
func (t *seat) hold(n vfs.Node, m *meter.Meter) error {
	first, err := t.count(m)
	if err != nil {
		n.Close()
		return err
	}
	if !first {
		return nil
	}
	stop := membrane.OnRevoke(n, func(err error) { t.lose(m, err) })
	t.s.mu.Lock()
	i := t.at(m)
	if i >= 0 {
		t.live[i].stop = stop
	}
	t.s.mu.Unlock()
	if i < 0 {
		stop()
	}
	return nil
}

// count counts the connection in m, unless it counts in another meter of the same root grant. first
// reports whether the connection did not hold the grant or share of m yet.
func (t *seat) count(m *meter.Meter) (first bool, err error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended || t.at(m) >= 0 {
		return false, nil
	}
	if !slices.ContainsFunc(t.live, func(h hold) bool { return h.meter.Grant() == m.Grant() }) {
		if err := t.take(m); err != nil {
			return false, err
		}
		t.counts = append(t.counts, m)
	}
	t.live = append(t.live, hold{meter: m})
	t.s.part(&t.stranger)
	t.conn.SetIdleTimeout(0)
	t.settle()
	return true, nil
}

// settle counts the connection where it still holds something. It counts as a connection in one
// meter of each root grant, the first it restored. Its calls count in the meter of what it restored
// first. s.mu is held.
func (t *seat) settle() {
	var counts []*meter.Meter
	for _, h := range t.live {
		if !slices.ContainsFunc(counts, func(o *meter.Meter) bool { return o.Grant() == h.meter.Grant() }) {
			counts = append(counts, h.meter)
		}
	}
	for _, m := range t.counts {
		if !slices.Contains(counts, m) {
			m.Give(meter.Connections, 1)
		}
	}
	for _, m := range counts {
		if !slices.Contains(t.counts, m) {
			m.Force(meter.Connections, 1)
		}
	}
	t.counts = counts
	if m := t.live[0].meter; m != t.payer {
		t.payer = m
		t.conn.SetMeter(m)
	}
}

// take counts the connection in m. While it is a stranger, it gives up its place among the
// strangers first, so that it does not count twice. s.mu is held.
func (t *seat) take(m *meter.Meter) error {
	if t.stranger.at != nil || t.stranger.aside {
		t.s.strange.Give(meter.Connections, 1)
		defer t.s.strange.Force(meter.Connections, 1) // until part removes it from the strangers
	}
	return membrane.Take(m, meter.Connections, 1)
}

// at returns the index in live of the hold with meter m, or -1.
func (t *seat) at(m *meter.Meter) int {
	return slices.IndexFunc(t.live, func(h hold) bool { return h.meter == m })
}

// lose notes that the grant or share with meter m was taken back. The connection ends when it holds
// nothing else.
func (t *seat) lose(m *meter.Meter, why error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	i := t.at(m)
	if i < 0 {
		return
	}
	t.live = slices.Delete(t.live, i, i+1)
	if len(t.live) == 0 && len(t.asks) > 0 && !t.ended {
		t.estrange()
		return
	}
	if len(t.live) == 0 {
		time.AfterFunc(t.s.nextEnd(), func() { t.end(why) })
		return
	}
	t.settle()
}

// estrange makes the connection a stranger again, one that may ask. s.mu is held.
func (t *seat) estrange() {
	for _, m := range t.counts {
		m.Give(meter.Connections, 1)
	}
	t.counts, t.payer = nil, nil
	t.s.strange.Force(meter.Connections, 1)
	t.s.setAside(&t.stranger, true)
	t.conn.SetMeter(t.s.strange)
}

// Share implements session.Grants.
func (t *seat) Share(ctx context.Context, n vfs.Node, terms operator.ShareTerms) (operator.Share, []byte, *membrane.Control, error) {
	return t.s.host.ShareOn(ctx, n, terms)
}

// Shares implements session.Grants.
func (t *seat) Shares(ctx context.Context, n vfs.Node, after string, max int) ([]operator.Share, error) {
	return t.s.host.Shares(ctx, n, after, max)
}

// RevokeShare implements session.Grants.
func (t *seat) RevokeShare(ctx context.Context, n vfs.Node, id string) error {
	return t.s.host.RevokeShare(ctx, n, id)
}

package host

import (
	"cmp"
	"net"
	"slices"
	"syscall"
	"time"

	"capd/cap/session"
	"capd/cap/wire"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

// Times.
const (
	// StrangerIdle is how long a stranger may say nothing, about; whoever holds a
	// grant may be silent for ever.
	StrangerIdle = time.Minute
	// Afterlife is how long a connection stays when everything that it had restored was
	// taken back, so that what it calls is answered.
	Afterlife = 250 * time.Millisecond
)

// maxFailures is how often a stranger may show something that lets it in nowhere.
const maxFailures = 32

// guestCallBytes is how much the calls in progress of one connection may hold, unless Options says otherwise.
const guestCallBytes = 24 << 20

// seat is a guest's connection, as the server counts it: a stranger until it has
// restored something, and then one of those that hold a grant. It is what the
// connection's Session asks for nodes. It is under Server.mu.
type seat struct {
	s        *Server
	raw      syscall.RawConn // its socket, or nil
	conn     *vat.Conn
	came     time.Time
	stranger stranger
	live     []hold         // what it has restored and that was not taken back
	counts   []*meter.Meter // it is a connection of these, of one for each root grant; see settle
	payer    *meter.Meter   // what it does counts there; nil: with the strangers
	failures int
	ended    bool
}

// hold is a grant, or a share, that a connection has restored.
type hold struct {
	meter *meter.Meter // which stands for it
	stop  func()       // stops waiting for its end
}

// Guest answers one guest on nc, which it takes over. It returns nil, and closes
// nc, when there is no room, or nobody at the other end any more. It waits a moment when there are as many
// strangers as may be and all of them are about to be heard.
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

var errNoRoom = vfs.Errorf(vfs.Busy, "this host has as many connections as it may (limit connections); try again later")

// mostPatience is how long a new connection waits while all strangers are about to be heard.
const mostPatience = 50 * time.Millisecond

// room takes a place for one stranger more. Where there is none somebody has to go.
func (s *Server) room() bool {
	for end := time.Now().Add(mostPatience); ; {
		s.mu.Lock()
		ok, left := s.makeRoom(time.Now().After(end))
		s.mu.Unlock()
		switch {
		case ok:
			return true
		case left == nil:
			return false
		}
		select {
		case <-left:
		case <-time.After(time.Millisecond):
		}
	}
}

// makeRoom is room once. left is closed when there may be room again; nil where there
// will be none. s.mu is held.
func (s *Server) makeRoom(late bool) (ok bool, left chan struct{}) {
	for s.strange.Take(meter.Connections, 1) != nil {
		goes := s.strangers.goes()
		if goes == nil && late {
			goes = s.strangers.first()
		}
		switch {
		case goes == nil && (late || len(s.strangers.from) == 0):
			return false, nil
		case goes == nil:
			if s.left == nil {
				s.left = make(chan struct{})
			}
			return false, s.left
		}
		s.part(goes)
		goes.leave()
	}
	return true, nil
}

// part takes somebody from among the strangers, if it is one of them. s.mu is held.
func (s *Server) part(who *stranger) {
	if who.at == nil {
		return
	}
	s.strangers.remove(who)
	s.strange.Give(meter.Connections, 1)
	if s.left != nil {
		close(s.left)
		s.left = nil
	}
}

// How long a stranger is left alone: until its first message has come, and then until its next.
const (
	timeToSpeak = 10 * time.Millisecond
	timeToGoOn  = 25 * time.Millisecond
)

// standing is what a stranger has done so far.
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
func (t *seat) Restore(secret []byte) (vfs.Node, error) {
	n, m, err := t.s.host.Restore(secret)
	if err != nil {
		t.fail()
		return nil, err
	}
	if err := t.hold(n, m); err != nil {
		return nil, err
	}
	return n, nil
}

// fail notes that the guest has shown a locator that leads nowhere.
func (t *seat) fail() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.strangers.fail(&t.stranger)
	if t.failures++; t.failures == maxFailures && t.stranger.at != nil {
		go t.conn.Abort("limit: too many locators that lead nowhere")
	}
}

// hold notes that the connection has restored n, of the grant whose meter is m. It closes
// n where that may not be.
func (t *seat) hold(n vfs.Node, m *meter.Meter) error {
	first, err := t.count(m)
	if err != nil {
		n.Close()
		return err
	}
	if !first {
		return nil
	}
	stop := vfs.OnRevoke(n, func(err error) { t.lose(m, err) })
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

// count counts the connection in m, unless it counts in another of the same root grant. first is true
// when it did not hold what m is of before.
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

// settle has the connection count where it still holds something: as a connection in the first that it has of each root
// grant, and with what it does in the first of all. s.mu is held.
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

// take counts the connection in m: of a stranger it is one still, which comes from among them. s.mu is held.
func (t *seat) take(m *meter.Meter) error {
	if t.stranger.at != nil {
		t.s.strange.Give(meter.Connections, 1)
		defer t.s.strange.Force(meter.Connections, 1) // until it has parted from them
	}
	return vfs.Take(m, meter.Connections, 1)
}

// at is the index in live of the one whose meter is m, or -1.
func (t *seat) at(m *meter.Meter) int {
	return slices.IndexFunc(t.live, func(h hold) bool { return h.meter == m })
}

// lose notes that what m is of was taken back. Without anything else the connection ends.
func (t *seat) lose(m *meter.Meter, why error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	i := t.at(m)
	if i < 0 {
		return
	}
	t.live = slices.Delete(t.live, i, i+1)
	if len(t.live) == 0 {
		time.AfterFunc(t.s.nextEnd(), func() { t.end(why) })
		return
	}
	t.settle()
}

// betweenEnds is how far the ends of two connections are apart of which all was taken back. Thousands that end at
// once, each with its goroutines, would leave nobody else a processor for a tenth of a second.
const betweenEnds = 60 * time.Microsecond

// mostAfterlife is when one ends at the latest, which is enough for all that there may be. A guest could have put off the
// ends of others otherwise: by shares that it takes back and makes again, each restored on many connections.
const mostAfterlife = 750 * time.Millisecond

// nextEnd returns in what time the next connection may be ended. s.mu is held.
func (s *Server) nextEnd() time.Duration {
	now := time.Now()
	after := min(max(Afterlife, s.lastEnd.Add(betweenEnds).Sub(now)), mostAfterlife)
	s.lastEnd = now.Add(after)
	return after
}

// end ends the connection, unless it holds something again. The peer is told why, in the
// words of a call's error.
func (t *seat) end(why error) {
	t.s.mu.Lock()
	over := !t.ended && len(t.live) == 0
	t.s.mu.Unlock()
	if over {
		t.conn.Abort(wire.Encode(vfs.At("", why)).Reason)
	}
}

// Share implements session.Grants.
func (t *seat) Share(n vfs.Node) ([]byte, *vfs.Control, error) { return t.s.host.Share(n) }

// socketBelow returns the connection that nc is laid over in the end.
func socketBelow(nc net.Conn) net.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = over.NetConn()
	}
}

func rawOf(nc net.Conn) syscall.RawConn {
	c, ok := socketBelow(nc).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// hangUp closes nc at once, with no word of goodbye.
func hangUp(nc net.Conn) { socketBelow(nc).Close() }

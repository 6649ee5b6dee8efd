package tests

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// assault is a running attack.
type assault struct {
	testing.TB
	*suite
	round int
	peak  int // the most KiB resident that was seen
	keeps int // connections that stay open after the attack

	mu    sync.Mutex
	conns []net.Conn
}

// leave ends every connection of the attack, and checks the host.
func (a *assault) leave() {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.Close()
	}
	a.conns = nil
}

// look notes the host's present size.
func (a *assault) look() {
	kb := usageOf(&testing.T{}, a.pid()).rssKB
	a.mu.Lock()
	a.peak = max(a.peak, kb)
	a.mu.Unlock()
}

func (a *assault) Errorf(format string, args ...any) {
	a.Helper()
	a.TB.Errorf(format, args...)
}

// connect opens a connection that lasts until the attack is over.
func (a *assault) connect() net.Conn {
	a.Helper()
	nc := connectTo(a.TB, a.evil.Socket)
	a.mu.Lock()
	a.conns = append(a.conns, nc)
	a.mu.Unlock()
	return nc
}

// stranger is a peer that holds nothing.
func (a *assault) stranger() *peer { return newPeer(a.TB, a.connect()) }

// The question ids of a guest's first calls.
const (
	askedBoot = 1_000_000 + iota
	askedTop
	askedFile
	askedLater
)

// guest returns a peer that has the session and the grant's directory, with
// their ids.
func (a *assault) guest() (p *peer, session, top uint32) {
	p = a.stranger()
	p.bootstrap(askedBoot)
	p.call(restore(askedTop, result(askedBoot), a.evil.Secret[:]))
	caps, _ := p.works(askedBoot)
	session = caps[0]
	caps, _ = p.works(askedTop)
	return p, session, caps[0]
}

// holding is guest, and also returns the id of the file project/hostile/f.
func (a *assault) holding() (p *peer, top, file uint32) {
	p, _, top = a.guest()
	p.call(openFile(askedFile, export(top), "project/hostile/f"))
	caps, _ := p.works(askedFile)
	return p, top, caps[0]
}

// breach is a row in which each round breaks a rule on a connection of its own.
// The host must end that connection with an Abort that says why.
func breach(name, why string, do func(p *peer, session, top uint32)) hostileRow {
	return hostileRow{name: name, must: "abort: " + why, do: func(a *assault) {
		p, session, top := a.guest()
		do(p, session, top)
		p.aborted(why)
	}}
}

// refused is a row whose calls must fail without harm to anything else on the
// connection.
func refused(name, must string, do func(p *peer, session, top uint32)) hostileRow {
	return hostileRow{name: name, must: must, do: func(a *assault) {
		p, session, top := a.guest()
		do(p, session, top)
		p.alive(top)
	}}
}

// alive checks that a connection goes on.
func (p *peer) alive(top uint32) {
	p.Helper()
	p.call(statDir(askedLater, export(top)))
	p.works(askedLater)
	p.finish(askedLater, true)
	p.flush()
}

// swallow reads everything that the host sends, so that the host is not blocked.
func (p *peer) swallow() {
	go func() {
		buf := make([]byte, 64<<10)
		p.nc.SetReadDeadline(time.Time{})
		for {
			if _, err := p.nc.Read(buf); err != nil {
				return
			}
		}
	}()
}

// refusals counts what the host refused because of a limit, on some connections.
type refusals struct{ calls, conns atomic.Int64 }

// swallow is peer.swallow, and counts refusals.
func (n *refusals) swallow(p *peer) {
	p.nc.SetReadDeadline(time.Time{})
	go func() {
		for {
			msg, err := p.dec.Decode()
			if err != nil {
				return
			}
			m, err := rpc.ReadRootMessage(msg)
			if err != nil {
				p.Errorf("the host's message cannot be read: %v", err)
				return
			}
			switch m.Which() {
			case rpc.Message_Which_return:
				if r, err := m.Return(); err == nil && isLimit(r) {
					n.calls.Add(1)
				}
			case rpc.Message_Which_abort:
				e, err := m.Abort()
				ok(p, err)
				if why, _ := e.Reason(); strings.HasPrefix(why, "limit: ") {
					n.conns.Add(1)
				} else {
					p.Errorf("the host aborted with %q, want a limit", why)
				}
			}
		}
	}()
}

// come waits until at least calls calls and conns connections were refused
// because of a limit. Meanwhile it notes the host's size.
func (n *refusals) come(a *assault, calls, conns int64) {
	a.Helper()
	if !waitFor(patience, func() bool { a.look(); return n.calls.Load() >= calls && n.conns.Load() >= conns }) {
		a.Errorf("%d calls met a limit, and %d connections ended for one; want at least %d and %d", n.calls.Load(), n.conns.Load(), calls, conns)
	}
	a.Logf("%d calls met a limit, and %d connections ended for one", n.calls.Load(), n.conns.Load())
}

// each runs f on n goroutines and waits for them.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

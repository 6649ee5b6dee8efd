package host_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"capd/authority"
	"capd/backend/memory"
	schema "capd/capnp"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

var mostStrangers = int(meter.StrangerLimits()[meter.Connections])

// A connection that restores nothing makes room for a later one.
func TestStrangersMakeRoom(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	first := client.NewConn(dial(), loc)
	defer first.Close()
	_, err := first.Node(t.Context())
	ok(t, err)
	for range 2 * mostStrangers {
		dial()
	}
	eventually(t, "the oldest strangers are gone", func() bool { return s.Conns() <= mostStrangers+1 })
	late := client.NewConn(dial(), loc)
	defer late.Close()
	_, err = late.Node(t.Context())
	ok(t, err)
	_, err = first.Node(t.Context()) // it is no stranger
	ok(t, err)
}

// A connection that restores nothing is ended. A connection that holds a grant may be silent for
// ever.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority.New(memory.New(memory.Limits{}).Root(), nil, nil)
		defer a.Close()
		_, secret, err := a.Grant(t.Context(), "agent", "", false)
		ok(t, err)
		s := host.New(a, host.Options{})
		defer s.Close()
		connect := func() *client.Conn {
			near, far := net.Pipe()
			s.Guest(far)
			return client.NewConn(near, locator.Locator{Secret: secret})
		}
		holder, stranger := connect(), connect()
		defer holder.Close()
		defer stranger.Close()
		_, err = holder.Node(t.Context())
		ok(t, err)
		_, err = stranger.Help(t.Context(), "") // it has said something
		ok(t, err)
		time.Sleep(3 * host.StrangerIdle)
		synctest.Wait()
		select {
		case <-stranger.Done():
		default:
			t.Error("a stranger that is silent stays")
		}
		_, err = holder.Node(t.Context())
		ok(t, err)
	})
}

// A known locator does not count as unknown when too many connections hold its grant. However often
// it is shown, its holder is told limit, and gets in when another connection leaves.
func TestFullGrantIsNoWrongLocator(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	_, err := s.Authority().SetLimits("agent", meter.Limits{meter.Connections: 1})
	ok(t, err)
	first, late := client.NewConn(dial(), loc), client.NewConn(dial(), loc)
	defer first.Close()
	defer late.Close()
	_, err = first.Node(t.Context())
	ok(t, err)
	for range 100 {
		if _, err := late.Node(t.Context()); vfs.CodeOf(err) != vfs.Limit {
			t.Fatalf("got %v, want limit", err)
		}
	}
	first.Close()
	eventually(t, "the one that was late is in", func() bool {
		_, err := late.Node(t.Context())
		return err == nil
	})
}

// When there is no room, and no stranger that could make room, a new connection is refused at once:
// the next is not accepted meanwhile.
func TestNoRoomIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority.New(memory.New(memory.Limits{}).Root(), nil, nil)
		defer a.Close()
		s := host.New(a, host.Options{})
		defer s.Close()
		near, far := net.Pipe()
		s.Guest(far)
		near.Close()
		synctest.Wait()
		a.Meters().All().Force(meter.Connections, meter.HostLimits()[meter.Connections])
		begun := time.Now()
		near, far = net.Pipe()
		defer near.Close()
		if s.Guest(far) != nil {
			t.Error("there is room")
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v to refuse a connection", took)
		}
	})
}

// A grant has a limited number of connections. When one ends there is room for another.
func TestConnsPerGrant(t *testing.T) {
	_, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	var conns []*client.Conn
	for range meter.GrantLimits()[meter.Connections] {
		c := client.NewConn(dial(), loc)
		defer c.Close()
		_, err := c.Node(t.Context())
		ok(t, err)
		_, err = c.Node(t.Context()) // a second restore does not count again
		ok(t, err)
		conns = append(conns, c)
	}
	more := client.NewConn(dial(), loc)
	defer more.Close()
	if _, err := more.Node(t.Context()); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("one more: %v", err)
	}
	ok(t, conns[0].Close())
	eventually(t, "there is room again", func() bool {
		_, err := more.Node(t.Context())
		return err == nil
	})
}

// held opens connections that hold what loc stands for, until one more is refused, and returns
// them.
func held(t *testing.T, dial func() net.Conn, loc locator.Locator) (conns []*client.Conn) {
	t.Helper()
	for {
		c := client.NewConn(dial(), loc)
		t.Cleanup(func() { c.Close() })
		if _, err := c.Node(t.Context()); err != nil {
			if vfs.CodeOf(err) != vfs.Limit {
				t.Fatalf("one more: %v", err)
			}
			return conns
		}
		conns = append(conns, c)
	}
}

// No grant can take all connections of a host, and no share all of its giver's. There is always
// room for another grant, and for a stranger.
func TestConnectionsAreShared(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	a := s.Authority()
	const all = 64
	a.Meters().All().Set(meter.Limits{meter.Connections: all})
	greedy := held(t, dial, loc)
	if n := len(greedy); n < all/2-2 || n > all/2 {
		t.Errorf("one grant that is alone has %d connections of %d", n, all)
	}
	_, secret, err := a.Grant(t.Context(), "honest", "", false)
	ok(t, err)
	honest := loc
	honest.Secret = secret
	first := client.NewConn(dial(), honest)
	defer first.Close()
	n, err := first.Node(t.Context())
	ok(t, err)
	text, _, err := first.Share(t.Context(), n)
	ok(t, err)
	shared, err := locator.Parse(text)
	ok(t, err)
	beside := len(held(t, dial, shared))
	if beside < 4 {
		t.Errorf("a share has %d connections beside a greedy grant", beside)
	}
	if more := len(held(t, dial, honest)); more < 1 {
		t.Errorf("its giver has %d beside it, and it %d", more, beside)
	}
	late := client.NewConn(dial(), honest)
	defer late.Close()
	_, err = late.Help(t.Context(), "") // a stranger is answered
	ok(t, err)
}

// A connection whose grants were all taken back is told so and ended within a second, idle or not.
// Another connection gets its place.
func TestRevokedConnectionsEnd(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	a := s.Authority()
	_, secret, err := a.Grant(t.Context(), "other", "", false)
	ok(t, err)
	other := loc
	other.Secret = secret
	var dirs []*client.Dir
	var conns []*client.Conn
	for range 64 {
		c := client.NewConn(dial(), loc)
		defer c.Close()
		n, err := c.Node(t.Context())
		ok(t, err)
		conns, dirs = append(conns, c), append(dirs, n.(*client.Dir))
	}
	m, err := a.Meter(t.Context(), "g1")
	ok(t, err)
	begun := time.Now()
	_, err = a.Revoke("agent")
	ok(t, err)
	for i, d := range dirs {
		if _, err := d.Stat(t.Context()); vfs.CodeOf(err) != vfs.Revoked {
			t.Fatalf("connection %d, just revoked: %v", i, err)
		}
	}
	for i, c := range conns {
		select {
		case <-c.Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("connection %d goes on", i)
		}
		if _, err := dirs[i].Stat(t.Context()); vfs.CodeOf(err) != vfs.Revoked {
			t.Errorf("connection %d, ended: %v", i, err)
		}
		if _, err := c.Node(t.Context()); vfs.CodeOf(err) != vfs.Revoked {
			t.Errorf("connection %d, restoring: %v", i, err)
		}
	}
	t.Logf("all were ended after %v", time.Since(begun))
	eventually(t, "nothing is left", func() bool { return s.Conns() == 0 && m.Used(meter.Connections) == 0 })
	c := client.NewConn(dial(), other)
	defer c.Close()
	_, err = c.Node(t.Context())
	ok(t, err)
}

// A connection that still holds something goes on, even if it restored that later.
func TestRevokedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority.New(memory.New(memory.Limits{}).Root(), nil, nil)
		defer a.Close()
		s := host.New(a, host.Options{})
		defer s.Close()
		secrets := map[string][]byte{}
		meters := map[string]*meter.Meter{}
		for i, name := range []string{"one", "two", "three"} {
			_, secret, err := a.Grant(t.Context(), name, "", false)
			ok(t, err)
			secrets[name] = secret[:]
			meters[name], err = a.Meter(t.Context(), fmt.Sprintf("g%d", i+1))
			ok(t, err)
		}
		used := func(name string) int64 { return meters[name].Turns()[meter.Light].Given }
		near, far := net.Pipe()
		s.Guest(far)
		c := vat.NewConn(near, vat.Options{})
		defer c.Close()
		session := c.Bootstrap(t.Context())
		defer session.Release()
		restore := func(name string) error {
			return vat.Do(t.Context(), session, schema.Session_restoreDir, func(p schema.Session_restoreDir_Params, _ *vat.Caps) error {
				return p.SetSecret(secrets[name])
			}, nil)
		}
		goesOn := func(what string, want bool) {
			t.Helper()
			time.Sleep(3 * host.Afterlife)
			synctest.Wait()
			err := vat.Do(t.Context(), session, schema.Session_help, nil, nil)
			if (err == nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
		countsIn := func(name string) {
			t.Helper()
			before := used(name)
			ok(t, vat.Do(t.Context(), session, schema.Session_help, nil, nil))
			if used(name) == before {
				t.Errorf("what the connection does does not count in %s", name)
			}
			for other, m := range meters {
				want := int64(0)
				if other == name {
					want = 1
				}
				if n := m.Used(meter.Connections); n != want {
					t.Errorf("%d connections count in %s, want %d", n, other, want)
				}
			}
		}
		ok(t, restore("one"))
		countsIn("one")
		ok(t, restore("two"))
		_, err := a.Revoke("one")
		ok(t, err)
		goesOn("holding another", true)
		countsIn("two")
		_, err = a.Revoke("two")
		ok(t, err)
		ok(t, restore("three"))
		goesOn("restored since", true)
		countsIn("three")
		_, err = a.Revoke("three")
		ok(t, err)
		goesOn("all revoked", false)
	})
}

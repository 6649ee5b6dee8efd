package host_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"capd/authority"
	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/vfs"
)

// Whoever connects and restores nothing makes room for those who come after.
func TestStrangersMakeRoom(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	first := client.NewConn(dial(), loc)
	defer first.Close()
	_, err := first.Node(t.Context())
	ok(t, err)
	for range 2 * host.MaxStrangers {
		dial()
	}
	eventually(t, "the oldest strangers are gone", func() bool { return s.Conns() <= host.MaxStrangers+1 })
	late := client.NewConn(dial(), loc)
	defer late.Close()
	_, err = late.Node(t.Context())
	ok(t, err)
	_, err = first.Node(t.Context()) // it is no stranger
	ok(t, err)
}

// Whoever restores nothing is not waited for; whoever holds a grant may be silent for
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

// One grant is held by so many connections, and one that ends makes room.
func TestConnsPerGrant(t *testing.T) {
	_, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	var conns []*client.Conn
	for range meter.GrantLimits()[meter.Connections] {
		c := client.NewConn(dial(), loc)
		defer c.Close()
		_, err := c.Node(t.Context())
		ok(t, err)
		_, err = c.Node(t.Context()) // again counts once
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

package host_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
)

// A crowd from one address is only in its own way, during handshakes and as strangers.
// (Linux answers on all of 127.0.0.0/8.)
func TestCrowdsMakeRoom(t *testing.T) {
	s, address, loc := startTLS(t, host.Options{})
	dialFrom := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := d.DialContext(t.Context(), "tcp", address)
		ok(t, err)
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	handshake := func(nc net.Conn) *tls.Conn {
		c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{locator.Protocol}})
		ctx, cancel := context.WithTimeout(t.Context(), host.HandshakeTimeout)
		defer cancel()
		ok(t, c.HandshakeContext(ctx))
		return c
	}
	early := dialFrom("127.0.0.2")
	for range host.MaxHandshakes + 10 {
		dialFrom("127.0.0.3")
	}
	shook := handshake(early)
	eventually(t, "the early one is a stranger", func() bool { return s.Conns() == 1 })
	for range mostStrangers + 10 {
		handshake(dialFrom("127.0.0.3"))
	}
	c := client.NewConn(shook, loc)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := c.Node(ctx)
	ok(t, err)
}

// A crowd over TCP is not in the way of guests who come by a socket.
func TestCrowdsLeaveTheSocketAlone(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	early := dial()
	eventually(t, "the early one is a stranger", func() bool { return s.Conns() == 1 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	done := make(chan struct{})
	go func() { defer close(done); s.ServeGuests(l) }()
	defer func() { l.Close(); <-done }()
	for range mostStrangers + 10 {
		dialTCP(t, l.Addr().String())
	}
	eventually(t, "there are as many strangers as may be", func() bool { return s.Conns() == mostStrangers })
	c := client.NewConn(early, loc)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = c.Node(ctx)
	ok(t, err)
}

// A crowd of another user is not in the way of guests of this user, where a socket lets
// both in.
func TestCrowdsOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	early := dial()
	eventually(t, "the early one is a stranger", func() bool { return s.Conns() == 1 })
	l, err := net.Listen("unix", "@capd-host-test-"+rand.Text()) // it has no mode: anybody may connect
	ok(t, err)
	done := make(chan struct{})
	go func() { defer close(done); s.ServeGuests(l) }()
	defer func() { l.Close(); <-done }()
	crowd := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its changed user
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 54321, ^uintptr(0)); errno != 0 {
			crowd <- errno
			return
		}
		for range mostStrangers + 10 {
			nc, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				crowd <- err
				return
			}
			defer nc.Close()
		}
		crowd <- nil
		<-done
	}()
	ok(t, <-crowd)
	eventually(t, "there are as many strangers as may be", func() bool { return s.Conns() == mostStrangers })
	c := client.NewConn(early, loc)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = c.Node(ctx)
	ok(t, err)
}

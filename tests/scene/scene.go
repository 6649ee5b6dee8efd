// Package scene serves a tree on a real socket of this process, grants and dials, for
// tests. Everything ends with the test.
package scene

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"capd/approval"
	"capd/authority"
	"capd/backend/memory"
	"capd/client"
	"capd/database"
	"capd/history"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/record"
	"capd/shelf"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// Host is a host that serves a tree.
type Host struct {
	Authority *authority.Host
	Server    *host.Server
	At        locator.Locator // where guests reach it: everything but the secret
	Served    <-chan error    // gets the result of serving, and is closed then
}

// Options are a host's options. If Logf is nil, each line of the host's log fails the
// test: it is an internal error or a panic.
type Options struct {
	host.Options
	Limits meter.Limits    // of each grant; nil for the defaults
	Record bool            // keep a record of what guests do, and what their changes displace
	DB     *database.DB    // with Record, where; the caller closes it. Nil is in memory
	Clock  *membrane.Clock // by which grants expire; nil for the system's
	Policy *policy.Book    // the rules for guests; nil for none
	Desk   bool            // changes can wait for approvals; nobody listens

	Approve operator.Answer // with Record: changes that need an approval wait, and get this answer at once; "" for none
}

// Serve serves tree to guests on a Unix socket.
func Serve(t testing.TB, tree vfs.Dir, o Options) *Host {
	t.Helper()
	at := locator.Locator{Socket: Socket(t)}
	l, err := net.Listen("unix", at.Socket)
	check.OK(t, err)
	return serve(t, tree, o, at, func(s *host.Server) error { return s.ServeGuests(l) })
}

// ServeTLS serves tree to guests over TLS only.
func ServeTLS(t testing.TB, tree vfs.Dir, o Options) *Host {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	check.OK(t, err)
	id, err := host.NewIdentity(key)
	check.OK(t, err)
	l, err := net.Listen("tcp", "localhost:0")
	check.OK(t, err)
	at := locator.Locator{Host: "localhost", Port: uint16(l.Addr().(*net.TCPAddr).Port), Key: id.Key}
	return serve(t, tree, o, at, func(s *host.Server) error { return s.ServeTLS(l, id) })
}

func serve(t testing.TB, tree vfs.Dir, o Options, at locator.Locator, run func(*host.Server) error) *Host {
	t.Helper()
	if o.Logf == nil {
		o.Logf = func(format string, args ...any) { t.Errorf("the host logs: "+format, args...) }
	}
	served := make(chan error, 1)
	h := &Host{Authority: authority.Open(tree, o.authority(t)), At: at, Served: served}
	h.Server = host.New(h.Authority, o.Options)
	go func() { defer close(served); served <- run(h.Server) }()
	t.Cleanup(func() {
		check.OK(t, h.Server.Close())
		check.OK(t, <-served)
		check.OK(t, h.Authority.Close())
	})
	return h
}

func (o Options) authority(t testing.TB) (a authority.Options) {
	a.Limits, a.Policy, a.Clock = o.Limits, o.Policy, o.Clock
	a.Journal = memory.New(memory.Limits{}).Root()
	a.Temps = &membrane.Temps{Carry: namespace.CarryTemp, Journal: a.Journal, New: func(context.Context) (vfs.Dir, func(), error) {
		return memory.New(memory.Limits{}).Root(), func() {}, nil
	}}
	if !o.Record && !o.Desk {
		return a
	}
	if a.DB = o.DB; a.DB == nil {
		a.DB = database.Memory()
		t.Cleanup(func() { check.OK(t, a.DB.Close()) })
	}
	var err error
	if o.Record {
		a.Record, err = record.Open(a.DB, record.Options{Logf: o.Logf})
		check.OK(t, err)
		t.Cleanup(func() { check.OK(t, a.Record.Close()) })
		private, err := os.OpenRoot(t.TempDir())
		check.OK(t, err)
		kept, err := shelf.In(private)
		check.OK(t, err)
		t.Cleanup(func() { check.OK(t, kept.Close()) })
		a.History, err = history.Open(a.DB, kept, func(string) bool { return true }, history.Options{})
		check.OK(t, err)
	}
	if o.Desk {
		a.Asks, err = approval.Open(context.Background(), a.DB, approval.Options{Record: a.Record})
		check.OK(t, err)
	}
	if o.Approve != "" {
		a.Asks, err = approval.Open(context.Background(), a.DB, approval.Options{Patient: true, Record: a.Record})
		check.OK(t, err)
		t.Cleanup(answering(t, a.Asks, a.Record, o.Approve))
	}
	return a
}

// answering gives every request that waits the answer a, or once where always does not suit it, until it is stopped.
func answering(t testing.TB, d *approval.Desk, log *record.Log, a operator.Answer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for next := uint64(0); ctx.Err() == nil; {
			all, now, _, err := log.Events(ctx, next, 256)
			check.OK(t, err)
			next = now
			for _, event := range all {
				var e record.Entry
				if check.OK(t, json.Unmarshal(event.Entry, &e)); e.Kind == record.Asked {
					_, err := d.Decide(e.Ask, operator.Verdict{Answer: a}, "the test")
					if vfs.CodeOf(err) == vfs.Invalid && a == operator.Always { // of many paths, which are approved once
						_, err = d.Decide(e.Ask, operator.Verdict{Answer: operator.Once}, "the test")
					}
					if vfs.CodeOf(err) != vfs.Conflict { // another answer covers it
						check.OK(t, err)
					}
				}
			}
		}
	}()
	return func() { cancel(); <-over }
}

// Console serves the operator of h on a Unix socket, and returns its path.
func (h *Host) Console(t testing.TB) (socket string) {
	t.Helper()
	socket = Socket(t)
	l, err := net.Listen("unix", socket)
	check.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- h.Server.ServeConsole(l, h.locator) }()
	t.Cleanup(func() {
		l.Close()
		check.OK(t, <-done)
	})
	return socket
}

func (h *Host) locator(secret [locator.SecretSize]byte) string { return h.at(secret).String() }

func (h *Host) at(secret [locator.SecretSize]byte) locator.Locator {
	at := h.At
	at.Secret = secret
	return at
}

// Grant grants what is at path to a guest, and returns the grant with its locator.
func (h *Host) Grant(t testing.TB, guest, path string, readOnly bool) (locator.Locator, operator.Grant) {
	t.Helper()
	return h.GrantOn(t, guest, path, operator.Terms{ReadOnly: readOnly})
}

// GrantOn is Grant on terms.
func (h *Host) GrantOn(t testing.TB, guest, path string, terms operator.Terms) (locator.Locator, operator.Grant) {
	t.Helper()
	g, secret, err := h.Authority.GrantOn(context.Background(), guest, path, terms)
	check.OK(t, err)
	return h.at(secret), g
}

// Guest grants everything, and connects. It returns what the guest sees.
func (h *Host) Guest(t testing.TB) *client.Dir {
	t.Helper()
	loc, _ := h.Grant(t, "agent", "", false)
	return Dial(t, loc).Dir(context.Background())
}

// Dial connects a guest.
func Dial(t testing.TB, at locator.Locator) *client.Conn {
	t.Helper()
	c, err := client.Dial(context.Background(), at.String())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// DialRaw opens a connection to a Unix socket, for tests that speak the protocol themselves.
func DialRaw(t testing.TB, socket string) net.Conn {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	check.OK(t, err)
	t.Cleanup(func() { nc.Close() })
	return nc
}

// Socket returns a path for a Unix socket. The directory of a test may have too long a
// path for one.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "capd")
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "s")
}

// InMemory returns tree as a store in memory.
func InMemory(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	_, d := check.Store(t, tree)
	return d
}

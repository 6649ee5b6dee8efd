// Package cap_test holds what the host serves to its interfaces' contract, over
// a socket.
package cap_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"capd/authority"
	"capd/backend/memory"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// served is a host that serves a tree.
type served struct {
	authority *authority.Host
	server    *host.Server
	socket    string

	mu   sync.Mutex
	logs []string
}

func serve(t testing.TB, tree vfs.Dir, limits meter.Limits) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "capd")
	ok(t, err)
	s := &served{authority: authority.New(tree, nil, limits), socket: filepath.Join(dir, "s")}
	s.server = host.New(s.authority, host.Options{Logf: func(format string, args ...any) {
		s.mu.Lock()
		s.logs = append(s.logs, fmt.Sprintf(format, args...))
		s.mu.Unlock()
	}})
	l, err := net.Listen("unix", s.socket)
	ok(t, err)
	go s.server.ServeGuests(l)
	t.Cleanup(func() {
		l.Close()
		s.server.Close()
		s.authority.Close()
		os.RemoveAll(dir)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, text := range s.logs { // an internal error, or a panic
			t.Errorf("the host logs: %s", text)
		}
	})
	return s
}

func (s *served) grant(t testing.TB, guest, path string, readOnly bool) (locator.Locator, operator.Grant) {
	t.Helper()
	g, secret, err := s.authority.Grant(context.Background(), guest, path, readOnly)
	ok(t, err)
	return locator.Locator{Socket: s.socket, Secret: secret}, g
}

// dial connects a guest with a locator.
func dial(t testing.TB, loc locator.Locator) *client.Conn {
	t.Helper()
	c, err := client.Dial(context.Background(), loc.String())
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// guest is a guest of a host of tree in memory.
func guest(t testing.TB, tree vfstest.Tree) (*served, *client.Conn, *client.Dir) {
	t.Helper()
	s := serve(t, inMemory(t, tree), nil)
	loc, _ := s.grant(t, "agent", "", false)
	c := dial(t, loc)
	return s, c, c.Dir(context.Background())
}

func inMemory(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	s := memory.New(memory.Limits{})
	ctx := context.Background()
	vfstest.Fill(t, s.Root(), tree,
		func(path, target string) error { return s.Symlink(ctx, path, target) },
		func(path string) error { return s.SetExec(ctx, path, true) })
	return s.Root()
}

// session connects without any locator, for calls as a guest of another make
// sends them.
func (s *served) session(t testing.TB) *vat.Cap {
	t.Helper()
	nc, err := net.Dial("unix", s.socket)
	ok(t, err)
	c := vat.NewConn(nc, vat.Options{})
	t.Cleanup(func() { c.Close() })
	return c.Bootstrap(context.Background())
}

// restore sends a secret and pipelines on its answer.
func restore(ctx context.Context, session *vat.Cap, secret []byte) *vat.Cap {
	a := vat.Send(ctx, session, schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	})
	defer a.Release()
	return a.Cap(schema.Session_restore_Results_ref, schema.Ref_dir)
}

// call makes one call and waits. place and read may be nil.
func call[P, R ~capnp.StructKind](t testing.TB, c *vat.Cap, m vat.Method[P, R], place func(P, *vat.Caps) error, read func(R, *vat.Caps) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return wire.Decode(vat.Do(ctx, c, m, place, read))
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// is says that err has the code want; "" is no error.
func is(t testing.TB, what string, err error, want vfs.Code) {
	t.Helper()
	if got := vfs.CodeOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

// reads says what the file at path holds.
func reads(t testing.TB, d *client.Dir, path, want string) {
	t.Helper()
	f := d.OpenFile(path)
	defer f.Close()
	text, _, err := f.ReadText(context.Background())
	if ok(t, err); text != want {
		t.Errorf("%s reads %.40q (%d bytes), want %.40q", path, text, len(text), want)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

package client_test

import (
	"context"
	"crypto/ed25519"
	"net"
	"os"
	"path/filepath"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// served is a host that serves a tree.
type served struct {
	authority *authority.Host
	server    *host.Server
	at        locator.Locator // where it is: all but the secret
}

// serve starts a host of tree on a Unix socket, which ends with the test.
func serve(t testing.TB, tree vfs.Dir) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "capd") // a test's own directory may be too long a name for a socket
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	ok(t, err)
	return serveOn(t, tree, l, locator.Locator{Socket: socket}, func(s *host.Server) error { return s.ServeGuests(l) })
}

// serveTLS starts a host of tree that guests reach over TLS alone.
func serveTLS(t testing.TB, tree vfs.Dir) *served {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	ok(t, err)
	id, err := host.NewIdentity(key)
	ok(t, err)
	l, err := net.Listen("tcp", "localhost:0")
	ok(t, err)
	at := locator.Locator{Host: "localhost", Port: uint16(l.Addr().(*net.TCPAddr).Port), Key: id.Key}
	return serveOn(t, tree, l, at, func(s *host.Server) error { return s.ServeTLS(l, id) })
}

func serveOn(t testing.TB, tree vfs.Dir, l net.Listener, at locator.Locator, run func(*host.Server) error) *served {
	t.Helper()
	s := &served{authority: authority.New(tree, nil, nil), at: at}
	s.server = host.New(s.authority, host.Options{Logf: func(format string, args ...any) {
		t.Errorf("the host logs: "+format, args...)
	}})
	done := make(chan error, 1)
	go func() { done <- run(s.server) }()
	t.Cleanup(func() {
		l.Close()
		ok(t, <-done)
		ok(t, s.server.Close())
		ok(t, s.authority.Close())
	})
	return s
}

// grant returns the locator of a new grant, and its id.
func (s *served) grant(t testing.TB, path string, readOnly bool) (loc, id string) {
	t.Helper()
	g, secret, err := s.authority.Grant(context.Background(), "agent", path, readOnly)
	ok(t, err)
	at := s.at
	at.Secret = secret
	return at.String(), g.ID
}

// dial connects a guest, until the test ends.
func dial(t testing.TB, loc string) *client.Conn {
	t.Helper()
	c, err := client.Dial(context.Background(), loc)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// guest serves tree and returns what a guest sees of it.
func guest(t testing.TB, tree vfs.Dir) *client.Dir {
	t.Helper()
	loc, _ := serve(t, tree).grant(t, "", false)
	return dial(t, loc).Dir(context.Background())
}

// guestTLS is guest over TLS.
func guestTLS(t testing.TB, tree vfs.Dir) *client.Dir {
	t.Helper()
	loc, _ := serveTLS(t, tree).grant(t, "", false)
	return dial(t, loc).Dir(context.Background())
}

// stores make the trees that are served, filled.
var stores = map[string]func(testing.TB, vfstest.Tree) vfs.Dir{
	"memory": inMemory, "physical": onDisk, "mounted": mounted,
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

func onDisk(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	dir := t.TempDir()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	t.Cleanup(func() { s.Close() })
	vfstest.Fill(t, s.Root(), tree,
		func(path, target string) error { return os.Symlink(target, filepath.Join(dir, path)) },
		func(path string) error { return os.Chmod(filepath.Join(dir, path), 0o755) })
	return s.Root()
}

// mounted has a tree in memory at its root, and another on disk at mnt/disk.
func mounted(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	return compose(t, map[string]vfs.Dir{
		"": inMemory(t, tree), "mnt/disk": onDisk(t, vfstest.Tree{"on/disk": {Data: "spinning"}}),
	})
}

// compose mounts trees at their paths.
func compose(t testing.TB, trees map[string]vfs.Dir) vfs.Dir {
	t.Helper()
	ns := vfs.NewNamespace()
	for path, tree := range trees {
		ok(t, ns.Mount(path, tree, vfs.MountOptions{}))
	}
	return ns.Root()
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

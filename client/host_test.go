package client_test

import (
	"context"
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

// served is a host that serves a tree on a Unix socket.
type served struct {
	authority *authority.Host
	server    *host.Server
	socket    string
}

// serve starts a host of tree, which ends with the test.
func serve(t testing.TB, tree vfs.Dir) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "capd") // a test's own directory may be too long a name for a socket
	ok(t, err)
	s := &served{authority: authority.New(tree, vfs.Allowance{}), socket: filepath.Join(dir, "s")}
	s.server = host.New(s.authority, host.Options{Logf: func(format string, args ...any) {
		t.Errorf("the host logs: "+format, args...)
	}})
	l, err := net.Listen("unix", s.socket)
	ok(t, err)
	done := make(chan error, 1)
	go func() { done <- s.server.ServeGuests(l) }()
	t.Cleanup(func() {
		l.Close()
		ok(t, <-done)
		ok(t, s.server.Close())
		ok(t, s.authority.Close())
		ok(t, os.RemoveAll(dir))
	})
	return s
}

// grant returns the locator of a new grant, and its id.
func (s *served) grant(t testing.TB, path string, readOnly bool) (loc, id string) {
	t.Helper()
	g, secret, err := s.authority.Grant(context.Background(), "agent", path, readOnly)
	ok(t, err)
	return locator.Locator{Socket: s.socket, Secret: secret}.String(), g.ID
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
	ns, err := vfs.Namespace(map[string]vfs.Dir{
		"": inMemory(t, tree), "mnt/disk": onDisk(t, vfstest.Tree{"on/disk": {Data: "spinning"}}),
	})
	ok(t, err)
	return ns
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

package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"capd/backend/physical"
	"capd/client"
	"capd/locator"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var ok, is = check.OK, check.Is

// serve starts a host of tree on a Unix socket, which ends with the test.
func serve(t testing.TB, tree vfs.Dir) *scene.Host {
	t.Helper()
	return scene.Serve(t, tree, scene.Options{})
}

// grant returns the locator of a new grant, and its id.
func grant(t testing.TB, h *scene.Host, path string, readOnly bool) (loc, id string) {
	t.Helper()
	at, g := h.Grant(t, "agent", path, readOnly)
	return at.String(), g.ID
}

// dial connects a guest, until the test ends.
func dial(t testing.TB, loc string) *client.Conn {
	t.Helper()
	at, err := locator.Parse(loc)
	ok(t, err)
	return scene.Dial(t, at)
}

// guest serves tree and connects a guest.
func guest(t testing.TB, tree vfs.Dir) *client.Dir {
	t.Helper()
	return serve(t, tree).Guest(t)
}

// guestTLS is guest over TLS.
func guestTLS(t testing.TB, tree vfs.Dir) *client.Dir {
	t.Helper()
	return scene.ServeTLS(t, tree, scene.Options{}).Guest(t)
}

// stores make the trees that are served, filled.
var stores = map[string]func(testing.TB, vfstest.Tree) vfs.Dir{
	"memory": scene.InMemory, "physical": onDisk, "mounted": mounted,
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
		"": scene.InMemory(t, tree), "mnt/disk": onDisk(t, vfstest.Tree{"on/disk": {Data: "spinning"}}),
	})
}

// compose mounts trees at their paths.
func compose(t testing.TB, trees map[string]vfs.Dir) vfs.Dir {
	t.Helper()
	ns := namespace.New()
	for path, tree := range trees {
		ok(t, ns.Mount(path, tree, namespace.Options{}))
	}
	return ns.Root()
}

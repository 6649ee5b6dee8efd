package tests

import (
	"context"
	"testing"

	"capd/backend/physical"
	"capd/client"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// inProcess is a host in this process, composed as in package server, with an extra
// layer between the store and its guards. Guests use a real socket.
type inProcess struct {
	*place
	*scene.Host
}

// serveHere serves a new place at project/.
func serveHere(t testing.TB, wrap func(vfs.Dir) vfs.Dir, guards ...membrane.Guard) *inProcess {
	t.Helper()
	p := newPlace(t)
	store, err := physical.OpenAmbient(p.served, physical.Options{})
	ok(t, err)
	root := store.Root()
	if wrap != nil {
		root = wrap(root)
	}
	tree := namespace.New()
	ok(t, tree.Mount("project", root, namespace.Options{Guards: append(guards, deny.Must(deny.Secrets...).Guard(), deny.Must(deny.Triggers...).Ask("project"))}))
	t.Cleanup(func() {
		ok(t, tree.Close())
		ok(t, store.Close())
		p.noStaging()
	})
	return &inProcess{p, scene.Serve(t, tree.Root(), scene.Options{})}
}

// granted is a grant with a guest that holds it.
type granted struct {
	*client.Dir
	conn    *client.Conn
	control *membrane.Control
	locator string
	id      string
}

func (h *inProcess) guest(path string) *granted {
	h.Helper()
	return guestAt(h, h.Host, path)
}

// guestAt grants what is at path and connects.
func guestAt(t testing.TB, h *scene.Host, path string) *granted {
	t.Helper()
	ctx := context.Background()
	at, g := h.Grant(t, "guest", path, false)
	ctl, err := h.Authority.Control(t.Context(), g.ID)
	ok(t, err)
	t.Cleanup(ctl.Release)
	conn := scene.Dial(t, at)
	d := conn.Dir(ctx)
	ok(t, d.Cap().Settle(ctx))
	return &granted{d, conn, ctl, at.String(), g.ID}
}

// within waits until f returns. It fails if that takes too long.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	if !closes(done) {
		t.Fatalf("%s hangs", what)
	}
}

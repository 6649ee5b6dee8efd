package tests

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"capd/authority"
	"capd/backend/physical"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/vfs"
	"capd/vfs/deny"
)

// inProcess is a host in this process, composed as in package server, with an extra
// layer between the store and its guards. Guests use a real socket.
type inProcess struct {
	*place
	authority *authority.Host
	server    *host.Server
	socket    string
}

// serveHere serves a new place at project/.
func serveHere(t testing.TB, wrap func(vfs.Dir) vfs.Dir, guards ...vfs.Guard) *inProcess {
	t.Helper()
	p := newPlace(t)
	store, err := physical.OpenAmbient(p.served, physical.Options{})
	ok(t, err)
	root := store.Root()
	if wrap != nil {
		root = wrap(root)
	}
	tree := vfs.NewNamespace()
	ok(t, tree.Mount("project", root, vfs.MountOptions{Guards: append(guards, deny.Must(deny.Secrets...).Guard(), deny.Must(deny.Triggers...).Ask(nil))}))
	h := &inProcess{place: p, authority: authority.New(tree.Root(), nil, nil), socket: filepath.Join(p.base, "s")}
	h.server = host.New(h.authority, host.Options{Logf: func(format string, args ...any) { t.Errorf("the host logs: "+format, args...) }})
	l, err := net.Listen("unix", h.socket)
	ok(t, err)
	done := make(chan error, 1)
	go func() { done <- h.server.ServeGuests(l) }()
	t.Cleanup(func() {
		l.Close()
		ok(t, <-done)
		ok(t, h.authority.Close())
		ok(t, h.server.Close())
		ok(t, tree.Close())
		ok(t, store.Close())
		p.noStaging()
	})
	return h
}

// granted is a grant with a guest that holds it.
type granted struct {
	*client.Dir
	conn    *client.Conn
	control *vfs.Control
	locator string
	id      string
}

func (h *inProcess) guest(path string) *granted {
	h.Helper()
	ctx := context.Background()
	g, secret, err := h.authority.Grant(ctx, "guest", path, false)
	ok(h, err)
	ctl, err := h.authority.Control(g.ID)
	ok(h, err)
	h.Cleanup(ctl.Release)
	loc := locator.Locator{Socket: h.socket, Secret: secret}.String()
	conn := dial(h, loc)
	d := conn.Dir(ctx)
	ok(h, d.Cap().Settle(ctx))
	return &granted{d, conn, ctl, loc, g.ID}
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

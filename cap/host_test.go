// Package cap_test tests over a socket that what the host serves keeps the contract of
// its interfaces.
package cap_test

import (
	"context"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var ok, is, eventually = check.OK, check.Is, check.Eventually

// served is a host that serves a tree.
type served struct{ *scene.Host }

func serve(t testing.TB, tree vfs.Dir, limits meter.Limits) *served {
	t.Helper()
	return &served{scene.Serve(t, tree, scene.Options{Limits: limits, Record: true})}
}

// guest serves tree from memory, and connects a guest.
func guest(t testing.TB, tree vfstest.Tree) (*served, *client.Conn, *client.Dir) {
	t.Helper()
	s := serve(t, scene.InMemory(t, tree), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)
	return s, c, c.Dir(context.Background())
}

// session connects without a locator, for calls as a guest in another language makes
// them.
func (s *served) session(t testing.TB) *vat.Cap {
	t.Helper()
	c := vat.NewConn(scene.DialRaw(t, s.At.Socket), vat.Options{})
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
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return wire.Decode(vat.Do(ctx, c, m, place, read))
}

// reads checks the content of the file at path.
func reads(t testing.TB, d *client.Dir, path, want string) {
	t.Helper()
	f := d.OpenFile(path)
	defer f.Close()
	text, _, err := f.ReadText(context.Background())
	if ok(t, err); text != want {
		t.Errorf("%s reads %.40q (%d bytes), want %.40q", path, text, len(text), want)
	}
}

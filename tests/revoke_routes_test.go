package tests

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/client/console"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// TestRevokeRoute: no other route avoids the control of getChild.
func TestRevokeRoute(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.tree()
	ok(t, os.WriteFile(p.served+"/a/.env", nil, 0o644))
	h := serveAt(p, execCapd(t))
	ctx := context.Background()
	loc, _, ctl := h.grant("agent", "project")
	c := dial(t, loc)
	d := c.Dir(ctx)
	early := map[string]*client.Dir{"a/b, held before": d.SubDir("a/b"), "revocable of a, held before": first(d.SubDir("a").Revocable()).SubDir("b")}
	for _, e := range early {
		ok(t, e.Cap().Settle(ctx))
	}
	v, err := d.OpenFile("f").Version(ctx)
	ok(t, err)

	child := func(c *console.Control, names ...string) *console.Control {
		t.Helper()
		for _, name := range names {
			next, err := c.Child(ctx, name)
			ok(t, err)
			c = next
		}
		return c
	}
	for _, name := range []string{"nope", "A", ".env", "B"} {
		_, err := child(ctl, "a").Child(ctx, name)
		is(t, "getChild of "+name, err, "notFound")
	}
	_, err = ctl.Child(ctx, "a/b")
	is(t, "getChild of a path", err, "invalid")
	b := child(ctl, "a", "b")
	file := child(b, "f")
	_, err = file.Child(ctx, "x")
	is(t, "getChild of a file", err, "notDir")

	bound := func(when string) {
		t.Helper()
		before := take(t, h.served)
		for what, err := range map[string]error{
			"remove":                  d.RemovePath(ctx, "a/b/f", vfs.If{}),
			"remove of the directory": d.RemovePath(ctx, "a/b", vfs.If{}),
			"move":                    d.Move(ctx, "a/b/f", d, "g", vfs.If{}, vfs.If{}),
			"move of the directory":   d.Move(ctx, "a/b", d, "g", vfs.If{}, vfs.If{}),
			"move of an ancestor":     d.Move(ctx, "a", d, "g", vfs.If{}, vfs.If{}),
			"move by a subDir":        d.SubDir("a").Move(ctx, "b", d, "g", vfs.If{}, vfs.If{}),
			"move over the file":      d.Move(ctx, "f", d, "a/b/f", vfs.If{}, vfs.If{Is: v}),
			"move by a revocable":     first(d.Revocable()).Move(ctx, "a", d, "g", vfs.If{}, vfs.If{}),
		} {
			is(t, when+": "+what, err, "busy readOnly")
		}
		if diff := before.differs(take(t, h.served)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	ways := func() map[string]func() error {
		all := map[string]func() error{
			"from the top":              func() error { return byPut(ctx, d, "a/b/f") },
			"by a subDir":               func() error { return byPut(ctx, d.SubDir("a"), "b/f") },
			"by a deeper subDir":        func() error { return byPut(ctx, d.SubDir("a/b"), "f") },
			"by a revocable":            func() error { return byPut(ctx, first(d.Revocable()), "a/b/f") },
			"by a file":                 func() error { _, err := d.OpenFile("a/b/f").WriteText(ctx, "x", vfs.If{}); return err },
			"in place":                  func() error { _, err := d.OpenFile("a/b/f").Append(ctx, []byte("x"), vfs.If{}); return err },
			"by a revocable's subDir":   func() error { return byPut(ctx, first(d.SubDir("a").Revocable()).SubDir("b"), "f") },
			"by a revocable of a file":  func() error { f, _ := d.OpenFile("a/b/f").Revocable(); return f.Truncate(ctx, 0, vfs.If{}) },
			"by a share of an ancestor": func() error { return byPut(ctx, share(t, c, d.SubDir("a")), "b/f") },
			"by a share of it":          func() error { return byPut(ctx, share(t, c, d.SubDir("a/b")), "f") },
		}
		for what, e := range early {
			all["by "+what] = func() error { return byPut(ctx, e, "f") }
		}
		return all
	}
	try := func(when, want string) {
		t.Helper()
		for what, do := range ways() {
			is(t, when+", "+what, do(), want)
		}
		ok(t, byPut(ctx, d, "a/other/f")) // other paths still work
	}
	bound("controlled")
	try("controlled", "ok")
	ok(t, b.SetWritable(ctx, false))
	bound("locked")
	try("locked", "readOnly")
	is(t, "locked, a new file", byPut(ctx, d, "a/b/new"), "readOnly")
	ok(t, b.SetWritable(ctx, true))
	ok(t, file.SetWritable(ctx, false))
	try("the file locked", "readOnly")
	is(t, "beside the file", byPut(ctx, d, "a/b/new"), "ok")
	ok(t, file.SetWritable(ctx, true))
	ok(t, b.SetReadable(ctx, false))
	is(t, "unreadable", by(d, "readBytes", "a/b/f"), "denied")
	ok(t, b.SetReadable(ctx, true))
	try("unlocked", "ok")
	ok(t, b.Revoke(ctx))
	for what, do := range ways() {
		if what != "by a share of it" {
			is(t, "revoked, "+what, do(), "revoked")
		}
	}
	is(t, "above", by(d, "list", "a"), "ok")
	is(t, "another file", by(d, "readBytes", "a/f"), "ok")
	is(t, "move over what was revoked", d.Move(ctx, "a", d, "g", vfs.If{}, vfs.If{}), "busy revoked")
	ok(t, ctl.Revoke(ctx))
	is(t, "all of it", by(d, "list", "a"), "revoked")
}

func first[A, B any](a A, _ B) A { return a }

func by(d *client.Dir, op, path string) error {
	_, err := try(context.Background(), op, d.Cap(), path)
	return err
}

// share returns a share of d, as a new guest gets it.
func share(t *testing.T, c *client.Conn, d *client.Dir) *client.Dir {
	t.Helper()
	loc, r, err := c.Share(context.Background(), d)
	ok(t, err)
	r.Close()
	return dial(t, loc).Dir(context.Background())
}

// holdBoth opens one connection that restores several locators.
func holdBoth(t *testing.T, locs ...string) (all []*vat.Cap) {
	t.Helper()
	for i, text := range locs {
		loc, err := locator.Parse(text)
		ok(t, err)
		if i == 0 {
			nc, err := net.Dial("unix", loc.Socket)
			ok(t, err)
			c := vat.NewConn(nc, vat.Options{})
			t.Cleanup(func() { c.Close() })
			all = append(all, c.Bootstrap(context.Background()))
		}
		a := vat.Send(context.Background(), all[0], schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error {
			return p.SetSecret(loc.Secret[:])
		})
		all = append(all, a.Cap(schema.Session_restore_Results_ref, schema.Ref_dir))
		a.Release()
	}
	return all[1:]
}

// TestRevokeBetweenGrants: a move uses both capabilities. Moves through two
// gates in both directions never deadlock while both gates are shut and opened.
func TestRevokeBetweenGrants(t *testing.T) {
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	ctx := context.Background()
	const files = 8
	var locs []string
	var ctls []*console.Control
	for _, name := range []string{"a", "b"} {
		ok(t, os.Mkdir(h.served+"/"+name, 0o755))
		loc, _, ctl := h.grant(name, "project/"+name)
		locs, ctls = append(locs, loc), append(ctls, ctl)
	}
	for i := range files {
		ok(t, os.WriteFile(fmt.Sprintf("%s/a/f%d", h.served, i), []byte("moved"), 0o644))
	}
	d := holdBoth(t, locs...)
	cross := func(i int, from, to *vat.Cap) error {
		name := fmt.Sprint("f", i%files)
		return wire.Decode(move(ctx, from, name, to, name))
	}
	ok(t, cross(0, d[0], d[1]))
	ok(t, cross(0, d[1], d[0]))
	ok(t, ctls[1].SetWritable(ctx, false))
	is(t, "to a locked grant", cross(0, d[0], d[1]), "readOnly")
	ok(t, ctls[1].SetWritable(ctx, true))
	ok(t, ctls[0].SetReadable(ctx, false))
	is(t, "from an unreadable grant", cross(0, d[0], d[1]), "denied")
	ok(t, ctls[0].SetReadable(ctx, true))

	var moved, refused atomic.Int64
	var over atomic.Bool
	var movers, lockers sync.WaitGroup
	for w := range 4 {
		from, to := d[w%2], d[1-w%2]
		movers.Go(func() {
			for i := 0; !over.Load(); i++ {
				switch err := cross(i, from, to); {
				case err == nil:
					moved.Add(1)
				case hasCode(err, "readOnly"):
					refused.Add(1)
				case !hasCode(err, "notFound stale busy exists revoked conflict"):
					t.Errorf("move: %v", err)
					return
				}
			}
		})
	}
	for _, ctl := range ctls {
		lockers.Go(func() {
			for range 150 {
				is(t, "lock", ctl.SetWritable(ctx, false), "ok")
				time.Sleep(time.Millisecond)
				is(t, "unlock", ctl.SetWritable(ctx, true), "ok")
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	within(t, "locking", lockers.Wait)
	var revokes sync.WaitGroup
	for _, ctl := range ctls {
		revokes.Go(func() { is(t, "revoke", ctl.Revoke(ctx), "ok") })
	}
	within(t, "revoking both at once", revokes.Wait)
	after := take(t, h.served)
	time.Sleep(100 * time.Millisecond)
	if diff := after.differs(take(t, h.served)); diff != "" {
		t.Errorf("moved after the revoke: %s", diff)
	}
	over.Store(true)
	within(t, "the movers", movers.Wait)
	if len(after) != files+3 { // directories count, too
		t.Errorf("%d files are left of %d", len(after)-3, files)
	}
	t.Logf("%d moves, %d refusals", moved.Load(), refused.Load())
	if moved.Load() == 0 || refused.Load() == 0 {
		t.Error("vacuous")
	}
	is(t, "from a revoked grant", cross(0, d[0], d[1]), "revoked")
}

package cap_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

var shareTree = vfstest.Tree{"a/f": {Data: "f"}, "a/b/g": {Data: "g"}, "c": {Data: "c"}}

func TestShareChain(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, shareTree), nil)
	loc, root := s.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)

	line, r, err := c.Share(ctx, c.Dir(ctx).SubDir("a").ReadOnly()) // promised, all of it
	ok(t, err)
	one, err := client.Dial(ctx, line)
	ok(t, err)
	defer one.Close()
	line, _, err = one.Share(ctx, one.Dir(ctx).SubDir("b").OpenFile("g"))
	ok(t, err)
	two, err := client.Dial(ctx, line)
	ok(t, err)
	defer two.Close()

	n, err := two.Node(ctx)
	ok(t, err)
	text, _, err := n.(*client.File).ReadText(ctx)
	if ok(t, err); text != "g" {
		t.Errorf("reads %q", text)
	}
	_, err = n.(*client.File).WriteText(ctx, "x", vfs.If{})
	is(t, "a write through what was shared from read-only", err, vfs.ReadOnly)
	gs, err := s.Authority.Grants("", 1<<20)
	ok(t, err)
	want := []operator.Grant{
		{Guest: "agent", Subject: "agent-run:agent", Source: operator.ByOperator, ID: root.ID, Mode: operator.ReadWrite, State: operator.Active, Rights: membrane.AllRights},
		{Guest: "agent/1", Subject: "agent-run:agent", Source: operator.ByOperator, ID: "g2", Path: "a", Mode: operator.ReadOnly, State: operator.Active, Parent: root.ID, Rights: membrane.AllRights &^ membrane.ChangeRights},
		{Guest: "agent/1/1", Subject: "agent-run:agent", Source: operator.ByOperator, ID: "g3", Path: "a/b/g", Mode: operator.ReadOnly, State: operator.Active, Parent: "g2", Rights: membrane.AllRights &^ membrane.ChangeRights},
	}
	for i := range want {
		if gs[i] != want[i] {
			t.Errorf("grant %d is %+v, want %+v", i, gs[i], want[i])
		}
	}

	ok(t, r.Revoke(ctx))
	ok(t, r.Revoke(ctx))
	for what, c := range map[string]*client.Conn{"the share": one, "what was shared from it": two} {
		_, err = c.Node(ctx)
		is(t, "restore of "+what, err, vfs.Revoked)
		_, err = c.Dir(ctx).Lookup(ctx, "f")
		is(t, "a promise of "+what, err, vfs.Revoked)
	}
	_, _, err = n.(*client.File).ReadText(ctx)
	is(t, "a File of it that was held", err, vfs.Revoked)
	reads(t, c.Dir(ctx), "a/f", "f")
}

// A share lives as long as its grant, even if the guest that made it is gone.
func TestShareOutlivesItsConnection(t *testing.T) {
	ctx := context.Background()
	s := serve(t, scene.InMemory(t, shareTree), nil)
	loc, g := s.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)
	line, r, err := c.Share(ctx, c.Dir(ctx).SubDir("a"))
	ok(t, err)
	r.Close()
	c.Close()
	eventually(t, "the sharer is gone", func() bool { return s.Server.Conns() == 0 })
	other, err := client.Dial(ctx, line)
	ok(t, err)
	defer other.Close()
	reads(t, other.Dir(ctx), "f", "f")
	n, err := s.Authority.Revoke(g.ID)
	if ok(t, err); n != 1 {
		t.Errorf("Revoke counts %d", n)
	}
	_, err = other.Node(ctx)
	is(t, "restore after the sharer's grant was revoked", err, vfs.Revoked)
	_, err = scene.Dial(t, loc).Node(ctx)
	is(t, "restore of the grant itself, from another connection", err, vfs.Revoked)
}

func TestShareRefused(t *testing.T) {
	ctx := t.Context()
	s, c, d := guest(t, shareTree)
	_, _, elsewhere := guest(t, shareTree)
	_, err := elsewhere.Stat(ctx)
	ok(t, err)
	_, _, err = c.Share(ctx, elsewhere)
	is(t, "a Dir of another host", err, vfs.Invalid)
	_, _, err = c.Share(ctx, nil)
	is(t, "nothing", err, vfs.Invalid)
	_, _, err = c.Share(ctx, d.SubDir("missing"))
	is(t, "what cannot be opened", err, vfs.NotFound)
	lent, r := d.Revocable()
	ok(t, r.Revoke(ctx))
	_, _, err = c.Share(ctx, lent)
	is(t, "what was revoked", err, vfs.Revoked)

	mine := vat.Serve(stuckTable, &stuck{})
	defer mine.Release()
	for what, place := range map[string]func(schema.Ref, *vat.Caps) error{
		"what a guest serves": func(r schema.Ref, c *vat.Caps) error { return r.SetDir(c.Put(mine.AddRef())) },
		"a Dir as a File":     func(r schema.Ref, c *vat.Caps) error { return r.SetFile(c.Put(d.Cap().AddRef())) },
		"a null":              func(schema.Ref, *vat.Caps) error { return nil },
	} {
		err := call(t, s.session(t), schema.Session_share, func(p schema.Session_share_Params, c *vat.Caps) error {
			ref, err := p.NewRef()
			ok(t, err)
			return place(ref, c)
		}, nil)
		is(t, what, err, vfs.Invalid)
	}
	is(t, "no reference at all", call(t, s.session(t), schema.Session_share, nil, nil), vfs.Invalid)
}

func TestShareLimit(t *testing.T) {
	ctx := t.Context()
	s, c, d := guest(t, shareTree)
	var last *client.Revoker
	for range meter.GrantLimits()[meter.Shares] {
		_, r, err := c.Share(ctx, d)
		ok(t, err)
		if last != nil {
			last.Close()
		}
		last = r
	}
	_, _, err := c.Share(ctx, d)
	is(t, "one more", err, vfs.Limit)
	ok(t, last.Revoke(ctx))
	_, _, err = c.Share(ctx, d)
	ok(t, err)
	loc, _ := s.Grant(t, "another", "", false) // is not concerned
	other := scene.Dial(t, loc)
	_, _, err = other.Share(ctx, other.Dir(ctx))
	ok(t, err)
}

func TestRestore(t *testing.T) {
	s := serve(t, scene.InMemory(t, shareTree), nil)
	loc, _ := s.Grant(t, "agent", "c", false)
	session := s.session(t)
	wrong := make([]byte, locator.SecretSize)
	rand.Read(wrong)
	near := loc.Secret
	near[31] ^= 1
	bad := map[string][]byte{
		"none": nil, "short": loc.Secret[:31], "long": append(loc.Secret[:], 0), "wrong": wrong, "near": near[:], "large": make([]byte, 100<<10), "huge": make([]byte, 1<<20),
	}
	ways := restores(t, session)
	for how, try := range ways {
		for what, secret := range bad {
			is(t, how+": "+what, try(secret), vfs.Denied)
		}
	}
	ok(t, ways["restore"](loc.Secret[:]))
	ok(t, ways["restoreFile"](loc.Secret[:]))
	is(t, "a File as a Dir", ways["restoreDir"](loc.Secret[:]), vfs.NotDir)
	dir, _ := s.Grant(t, "another", "a", false)
	ok(t, ways["restoreDir"](dir.Secret[:]))
	is(t, "a Dir as a File", ways["restoreFile"](dir.Secret[:]), vfs.IsDir)
	_, err := s.Authority.Revoke("agent")
	ok(t, err)
	for how, try := range ways {
		is(t, how+": a revoked one", try(loc.Secret[:]), vfs.Revoked)
	}
	is(t, "a Dir's method on a File", call(t, restore(t.Context(), session, loc.Secret[:]), schema.Dir_stat, nil, nil), vfs.Revoked)
}

// restores are the ways to restore a secret.
func restores(t *testing.T, session *vat.Cap) map[string]func(secret []byte) error {
	return map[string]func([]byte) error{
		"restore": func(secret []byte) error {
			return call(t, session, schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error { return p.SetSecret(secret) }, nil)
		},
		"restoreDir": func(secret []byte) error {
			return call(t, session, schema.Session_restoreDir, func(p schema.Session_restoreDir_Params, _ *vat.Caps) error { return p.SetSecret(secret) }, nil)
		},
		"restoreFile": func(secret []byte) error {
			return call(t, session, schema.Session_restoreFile, func(p schema.Session_restoreFile_Params, _ *vat.Caps) error { return p.SetSecret(secret) }, nil)
		},
	}
}

// A promise of a node of the wrong kind answers with the code that says so.
func TestPromisedNode(t *testing.T) {
	s := serve(t, scene.InMemory(t, shareTree), nil)
	file, _ := s.Grant(t, "file", "c", false)
	dir, _ := s.Grant(t, "dir", "a", false)
	ctx := t.Context()
	_, err := scene.Dial(t, file).Dir(ctx).Stat(ctx)
	is(t, "a File as a Dir", err, vfs.NotDir)
	_, err = scene.Dial(t, dir).File(ctx).Stat(ctx)
	is(t, "a Dir as a File", err, vfs.IsDir)
	_, err = scene.Dial(t, file).File(ctx).Stat(ctx)
	ok(t, err)
	reads(t, scene.Dial(t, dir).Dir(ctx), "f", "f")
}

// openDir and openFile follow a link in the last place, or do not, as walk does.
func TestOpenNoFollow(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"d/f": {Data: "f"}, "todir": {Link: "d"}, "tofile": {Link: "d/f"}, "nowhere": {Link: "x"}})
	open := func(path string, noFollow bool) (dir, file, sub error) {
		return call(t, d.Cap(), schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error {
				p.SetNoFollow(noFollow)
				return p.SetPath(path)
			}, nil), call(t, d.Cap(), schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error {
				p.SetNoFollow(noFollow)
				return p.SetPath(path)
			}, nil), call(t, d.Cap(), schema.Dir_subDir, func(p schema.Dir_subDir_Params, _ *vat.Caps) error {
				p.SetNoFollow(noFollow)
				return p.SetPath(path)
			}, nil)
	}
	for _, c := range []struct {
		path      string
		noFollow  bool
		dir, file vfs.Code
	}{
		{"d", true, "", vfs.IsDir},
		{"d/f", true, vfs.NotDir, ""},
		{"todir/f", true, vfs.NotDir, ""},
		{"todir", false, "", vfs.IsDir}, {"todir", true, vfs.NotDir, vfs.NotRegular},
		{"tofile", false, vfs.NotDir, ""}, {"tofile", true, vfs.NotDir, vfs.NotRegular},
		{"nowhere", false, vfs.NotFound, vfs.NotFound}, {"nowhere", true, vfs.NotDir, vfs.NotRegular},
		{"x", true, vfs.NotFound, vfs.NotFound},
	} {
		dir, file, sub := open(c.path, c.noFollow)
		what := fmt.Sprintf("%s, noFollow %v", c.path, c.noFollow)
		is(t, "openDir "+what, dir, c.dir)
		is(t, "openFile "+what, file, c.file)
		is(t, "subDir "+what, sub, c.dir)
	}
}

// A promise that has failed answers its own error where a Dir or a File to be shared, or whose shares are asked about, belongs.
func TestSharesOfAFailedPromise(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, shareTree), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	gone, _ := s.Grant(t, "gone", "", false)
	_, err := s.Authority.Revoke("gone")
	ok(t, err)
	unknown := loc
	unknown.Secret[0] ^= 1
	for name, c := range map[string]struct {
		at   locator.Locator
		node func(*client.Conn) vfs.Node
		want vfs.Code
	}{
		"an unknown secret": {unknown, func(c *client.Conn) vfs.Node { return c.Dir(ctx) }, vfs.Denied},
		"a revoked grant":   {gone, func(c *client.Conn) vfs.Node { return c.Dir(ctx).SubDir("a") }, vfs.Revoked},
		"what is missing":   {loc, func(c *client.Conn) vfs.Node { return c.Dir(ctx).SubDir("missing") }, vfs.NotFound},
		"what is no file":   {loc, func(c *client.Conn) vfs.Node { return c.Dir(ctx).OpenFile("a") }, vfs.IsDir},
		"nothing":           {loc, func(c *client.Conn) vfs.Node { return nil }, vfs.Invalid},
	} {
		conn := scene.Dial(t, c.at)
		for method, do := range map[string]func(vfs.Node) error{
			"share":       func(n vfs.Node) error { _, _, err := conn.Share(ctx, n); return err },
			"shares":      func(n vfs.Node) error { _, err := conn.Shares(ctx, n); return err },
			"revokeShare": func(n vfs.Node) error { return conn.RevokeShare(ctx, n, "1") },
		} {
			n := c.node(conn)
			err := do(n)
			is(t, method+" of "+name, err, c.want)
			if method != "share" && strings.Contains(fmt.Sprint(err), "share takes") {
				t.Errorf("%s of %s: %v", method, name, err)
			}
			if n == nil {
				continue
			}
			_, _ = n.Stat(ctx) // it is known here now that it has failed
			is(t, method+" again of "+name, do(n), c.want)
		}
	}
}

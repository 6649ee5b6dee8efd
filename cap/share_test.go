package cap_test

import (
	"context"
	"crypto/rand"
	"testing"

	"capd/authority"
	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

var shareTree = vfstest.Tree{"a/f": {Data: "f"}, "a/b/g": {Data: "g"}, "c": {Data: "c"}}

func TestShareChain(t *testing.T) {
	ctx := t.Context()
	s := serve(t, inMemory(t, shareTree), vfs.Allowance{})
	loc, root := s.grant(t, "agent", "", false)
	c := dial(t, loc)

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
	gs, err := s.authority.Grants("")
	ok(t, err)
	want := []authority.Grant{
		{Guest: "agent", ID: root.ID, Mode: authority.ReadWrite, State: authority.Active},
		{Guest: "agent/1", ID: "g2", Path: "a", Mode: authority.ReadOnly, State: authority.Active, Parent: root.ID},
		{Guest: "agent/1/1", ID: "g3", Path: "a/b/g", Mode: authority.ReadOnly, State: authority.Active, Parent: "g2"},
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

// Whoever shares may be gone: what he shared lives as long as his own grant.
func TestShareOutlivesItsConnection(t *testing.T) {
	ctx := context.Background()
	s := serve(t, inMemory(t, shareTree), vfs.Allowance{})
	loc, g := s.grant(t, "agent", "", false)
	c := dial(t, loc)
	line, r, err := c.Share(ctx, c.Dir(ctx).SubDir("a"))
	ok(t, err)
	r.Close()
	c.Close()
	eventually(t, "the sharer is gone", func() bool { return s.server.Conns() == 0 })
	other, err := client.Dial(ctx, line)
	ok(t, err)
	defer other.Close()
	reads(t, other.Dir(ctx), "f", "f")
	n, err := s.authority.Revoke(g.ID)
	if ok(t, err); n != 1 {
		t.Errorf("Revoke counts %d", n)
	}
	_, err = other.Node(ctx)
	is(t, "restore after the sharer's grant was revoked", err, vfs.Revoked)
	_, err = dial(t, loc).Node(ctx)
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
	is(t, "what cannot be opened", err, vfs.Invalid)
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
	for range authority.MaxShares {
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
	loc, _ := s.grant(t, "another", "", false) // is not concerned
	other := dial(t, loc)
	_, _, err = other.Share(ctx, other.Dir(ctx))
	ok(t, err)
}

func TestRestore(t *testing.T) {
	s := serve(t, inMemory(t, shareTree), vfs.Allowance{})
	loc, _ := s.grant(t, "agent", "c", false)
	session := s.session(t)
	try := func(secret []byte) error {
		return call(t, session, schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error {
			return p.SetSecret(secret)
		}, nil)
	}
	wrong := make([]byte, locator.SecretSize)
	rand.Read(wrong)
	near := loc.Secret
	near[31] ^= 1
	for what, secret := range map[string][]byte{
		"none": nil, "short": loc.Secret[:31], "long": append(loc.Secret[:], 0), "wrong": wrong, "near": near[:], "large": make([]byte, 100<<10),
	} {
		is(t, what, try(secret), vfs.Denied)
	}
	is(t, "huge", try(make([]byte, 1<<20)), vfs.Limit) // more than a stranger may have in progress
	ok(t, try(loc.Secret[:]))
	_, err := s.authority.Revoke("agent")
	ok(t, err)
	is(t, "a revoked one", try(loc.Secret[:]), vfs.Revoked)
	is(t, "a Dir's method on a File", call(t, restore(t.Context(), session, loc.Secret[:]), schema.Dir_stat, nil, nil), vfs.Revoked)
}

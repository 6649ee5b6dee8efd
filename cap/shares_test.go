package cap_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// shareOn shares n on terms. It returns the share's id and its secret's locator.
func shareOn(t *testing.T, c *client.Conn, n vfs.Node, terms client.ShareTerms) (id, loc string) {
	t.Helper()
	id, loc, r, err := c.ShareOn(t.Context(), n, terms)
	ok(t, err)
	ok(t, r.Close())
	return id, loc
}

// listed checks which shares of n are live, by their ids.
func listed(t *testing.T, what string, c *client.Conn, n vfs.Node, want ...string) []client.Share {
	t.Helper()
	all, err := c.Shares(t.Context(), n)
	ok(t, err)
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the shares of %s are %v, want %v", what, ids, want)
	}
	return all
}

// The terms of a share are kept, listed, and hold: each for itself.
func TestShareTerms(t *testing.T) {
	ctx := t.Context()
	_, c, d := guest(t, shareTree)
	_, short := shareOn(t, c, d, client.ShareTerms{Expires: 300 * time.Millisecond})
	_, once := shareOn(t, c, d, client.ShareTerms{Uses: 1})
	_, few := shareOn(t, c, d.SubDir("a"), client.ShareTerms{StoredBytes: 10, StoredNodes: 1, Expires: time.Hour, Unused: time.Minute, Uses: 7})
	eventually(t, "the first has ended", func() bool {
		_, err := dialled(t, short).Node(ctx)
		return vfs.CodeOf(err) == vfs.Expired
	})
	_, err := dialled(t, once).Node(ctx)
	ok(t, err)
	_, err = dialled(t, once).Node(ctx)
	is(t, "a second use", err, vfs.Expired)

	f, large := dialled(t, few).Dir(ctx), strings.Repeat("x", 100)
	_, err = f.Put(ctx, "new", strings.NewReader("12345"), vfs.If{})
	ok(t, err)
	_, err = f.Put(ctx, "newer", strings.NewReader(""), vfs.If{})
	is(t, "a second file", err, vfs.Quota)
	_, err = f.Put(ctx, "new", strings.NewReader(large), vfs.If{})
	is(t, "more bytes", err, vfs.Quota)
	_, err = d.Put(ctx, "a/newer", strings.NewReader(large), vfs.If{})
	ok(t, err) // the sharer has a quota of its own

	all := listed(t, "the grant", c, d, "2", "3")
	if got := all[0]; got.UsesLeft != -1 || got.ExpiresMs != 0 || got.Rights != membrane.AllRights {
		t.Errorf("the second share is %+v", got)
	}
	if got := all[1]; got.Path != "a" || got.UsesLeft != 6 || got.StoredBytes != 10 || got.StoredNodes != 1 || got.UnusedMs != 60_000 || got.ExpiresMs-got.MadeMs < 3_599_000 {
		t.Errorf("the third share is %+v", got)
	}

	for what, terms := range map[string]client.ShareTerms{
		"a time": {Expires: -1}, "a length": {Unused: -1}, "uses": {Uses: -1}, "bytes": {StoredBytes: -1}, "nodes": {StoredNodes: -1},
	} {
		_, _, _, err := c.ShareOn(ctx, d, terms)
		is(t, what+" below 0", err, vfs.Invalid)
	}
}

// More than any clock counts is no error, and never ends too early.
func TestShareTermsAreBounded(t *testing.T) {
	s := serve(t, scene.InMemory(t, shareTree), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	session := s.session(t)
	d := restore(t.Context(), session, loc.Secret[:])
	defer d.Release()
	ok(t, call(t, session, schema.Session_share, func(p schema.Session_share_Params, caps *vat.Caps) error {
		ref, err := p.NewRef()
		ok(t, err)
		w, err := p.NewTerms()
		ok(t, err)
		for _, set := range []func(uint64){w.SetExpiresInMs, w.SetUnusedMs, w.SetUses, w.SetStoredBytes, w.SetStoredNodes} {
			set(1<<64 - 1)
		}
		return ref.SetDir(caps.Put(d.AddRef()))
	}, nil))
	c := scene.Dial(t, loc)
	listed(t, "the grant", c, c.Dir(t.Context()), "1")
}

// Whoever holds a capability sees and takes back what was shared from it, from what was derived from it, and from those
// shares; and nothing else.
func TestSharesOf(t *testing.T) {
	ctx := t.Context()
	s, c, d := guest(t, shareTree)
	a, ro := d.SubDir("a"), d.ReadOnly()
	_, ofA := shareOn(t, c, a, client.ShareTerms{})     // 1
	shareOn(t, c, ro, client.ShareTerms{})              // 2
	shareOn(t, c, d.OpenFile("c"), client.ShareTerms{}) // 3
	lent, r := a.Revocable()
	_, ofLent := shareOn(t, c, lent, client.ShareTerms{}) // 4
	deep := dialled(t, ofA)
	shareOn(t, deep, deep.Dir(ctx).SubDir("b"), client.ShareTerms{}) // 1/1
	loc, _ := s.Grant(t, "another", "", false)
	other := scene.Dial(t, loc)
	shareOn(t, other, other.Dir(ctx), client.ShareTerms{})

	all := listed(t, "the grant", c, d, "1", "2", "3", "4", "1/1")
	if all[4].Path != "a/b" || all[1].Rights != membrane.AllRights&^membrane.ChangeRights {
		t.Errorf("the shares are %+v", all)
	}
	listed(t, "a", c, a, "1", "4", "1/1")
	listed(t, "what can only be read", c, ro, "2")
	listed(t, "a/b", c, d.SubDir("a/b"), "1/1")
	listed(t, "the file c", c, d.OpenFile("c"), "3")
	listed(t, "what was made revocable", c, lent, "4")
	listed(t, "the first share", deep, deep.Dir(ctx), "1")
	listed(t, "the grant of another", other, other.Dir(ctx), "1")

	for what, err := range map[string]error{
		"of another directory": c.RevokeShare(ctx, d.SubDir("a/b"), "1"),
		"with more rights":     c.RevokeShare(ctx, ro, "1"),
		"beside the gate":      c.RevokeShare(ctx, lent, "1"),
		"above":                deep.RevokeShare(ctx, deep.Dir(ctx), "2"),
		"of another grant":     other.RevokeShare(ctx, other.Dir(ctx), "2"),
		"of none":              c.RevokeShare(ctx, d, "77"),
		"no id":                c.RevokeShare(ctx, d, ""),
		"a name":               c.RevokeShare(ctx, d, "agent/1"),
		"a path":               c.RevokeShare(ctx, d, "../1"),
		"long":                 c.RevokeShare(ctx, d, string(make([]byte, 4000))),
	} {
		is(t, "a share "+what, err, vfs.NotFound)
	}
	_, err := dialled(t, ofLent).Node(ctx)
	ok(t, err)

	ok(t, c.RevokeShare(ctx, d, "1"))
	ok(t, c.RevokeShare(ctx, d, "1"))
	_, err = deep.Dir(ctx).Stat(ctx)
	is(t, "what was revoked", err, vfs.Revoked)
	listed(t, "the grant then", c, d, "2", "3", "4")
	ok(t, r.Revoke(ctx))
	listed(t, "the grant at last", c, d, "2", "3")
	_, err = c.Shares(ctx, lent)
	is(t, "the shares of what was revoked", err, vfs.Revoked)
	_, err = c.Shares(ctx, nil)
	is(t, "the shares of nothing", err, vfs.Invalid)
}

// Pages of many shares are complete.
func TestManySharesAreListed(t *testing.T) {
	_, c, d := guest(t, shareTree)
	const many = 600
	for range many {
		shareOn(t, c, d, client.ShareTerms{})
	}
	all, err := c.Shares(t.Context(), d)
	if ok(t, err); len(all) != many {
		t.Errorf("%d shares are listed, want %d", len(all), many)
	}
}

func dialled(t *testing.T, loc string) *client.Conn {
	t.Helper()
	c, err := client.Dial(context.Background(), loc)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

package client_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"capd/client"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

// usage is everything that a guest can make a host hold.
type usage struct {
	goroutines, descriptors int
	host, guest             vat.Stats
	open                    int64 // of the grant
}

// TestNothingIsLeft counts before and after a guest that holds something of everything.
// The guest closes everything, or just disconnects.
func TestNothingIsLeft(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			s := serve(t, store(t, fsTree))
			loc, id := grant(t, s, "", false)
			c := dial(t, loc)
			root := c.Dir(t.Context())
			_, err := root.Stat(t.Context())
			ok(t, err)
			now := func() usage {
				used, err := s.Authority.Meter(t.Context(), id)
				ok(t, err)
				u := usage{goroutines: runtime.NumGoroutine(), descriptors: openDescriptors(), guest: c.Stats(), open: used.Used(meter.Nodes)}
				for _, st := range s.Server.Stats() { // of one connection, or of none
					u.host = st
				}
				return u
			}
			comesBackTo := func(what string, want usage) {
				t.Helper()
				if !eventually(func() bool {
					runtime.GC() // a store may hold descriptors for a while
					u := now()
					return u.goroutines <= want.goroutines && u.descriptors <= want.descriptors &&
						u.host == want.host && u.guest == want.guest && u.open == want.open
				}) {
					t.Errorf("%s: before %+v, after %+v", what, want, now())
				}
			}
			useEverything(t, c, root)() // once, so that caches are warm
			var before usage
			steady := 0 // a share that was revoked is let go of a moment later
			if !eventually(func() bool {
				last := before.open
				before = now()
				if steady++; before.open != last || before.host.Answers != 0 || before.host.Exports != 2 || before.guest.Imports != 2 {
					steady = 0
				}
				return steady == 20
			}) {
				t.Errorf("the guest holds two capabilities and no more: %+v", before)
			}
			for range 3 {
				useEverything(t, c, root)()
			}
			comesBackTo("closed", before)

			m, err := s.Authority.Meter(t.Context(), id)
			ok(t, err)
			fresh := m.Used(meter.Nodes)
			other := dial(t, loc)
			useEverything(t, other, other.Dir(context.Background()))
			if held := m.Used(meter.Nodes); held <= fresh {
				t.Errorf("the guest holds nothing: %d nodes", held)
			}
			ok(t, other.Close())
			<-other.Done()
			if !eventually(func() bool { return s.Server.Conns() == 1 }) {
				t.Error("the host keeps a connection that is gone")
			}
			// Two shares live on, for the holders of their locators.
			before.open += 4
			comesBackTo("disconnected", before)
		})
	}
}

// useEverything opens something of everything, and returns a function that closes it.
func useEverything(t *testing.T, c *client.Conn, root *client.Dir) (closeAll func()) {
	t.Helper()
	ctx := context.Background()
	var open []io.Closer
	add := func(cs ...io.Closer) { open = append(open, cs...) }
	docs := root.SubDir("docs")
	ro := docs.ReadOnly()
	d, r := ro.Revocable()
	f := d.OpenFile("a.md")
	fr := f.ReadOnly()
	g, gr := fr.Revocable()
	add(docs, ro, d, r, f, fr, g, gr)
	text, _, err := g.ReadText(ctx)
	if ok(t, err); text != "a" {
		t.Errorf("reads %q", text)
	}
	for e, err := range root.Entries(ctx, true) {
		ok(t, err)
		n, err := root.Lookup(ctx, e.Name)
		ok(t, err)
		add(n)
	}
	for range root.List(ctx) {
		break // and leaves the rest
	}
	for _, err := range root.Glob(ctx, "**/*.md") {
		ok(t, err)
	}
	b := root.OpenFile("docs/deep/er/b.md")
	content, err := vfs.Open(ctx, b)
	ok(t, err)
	add(b, content)
	_, err = root.Put(ctx, "large", strings.NewReader(strings.Repeat("x", 5<<20)), vfs.If{})
	ok(t, err)
	_, err = root.Put(ctx, "refused/large", strings.NewReader(strings.Repeat("x", 5<<20)), vfs.If{})
	is(t, "a large file where there is no directory", err, vfs.NotFound)
	ok(t, root.Remove(ctx, "large", vfs.If{}))
	_, sr, err := c.Share(ctx, f)
	ok(t, err)
	_, sr2, err := c.Share(ctx, root)
	ok(t, err)
	add(sr, sr2)
	_, err = root.Lookup(ctx, "missing")
	is(t, "a missing name", err, vfs.NotFound)
	return func() {
		ok(t, sr.Revoke(ctx))
		ok(t, sr2.Revoke(ctx))
		for _, c := range open {
			ok(t, c.Close())
		}
	}
}

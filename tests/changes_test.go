package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
)

// changesOf returns what is told since a cursor, a word for each event in order.
func changesOf(t *testing.T, d *client.Dir, q *vfs.ChangesQuery) (all []string) {
	t.Helper()
	for {
		page, err := d.Changes(t.Context(), *q)
		ok(t, err)
		if page.Rescan && len(q.Cursor) > 0 {
			all = append(all, "rescan")
		}
		q.Cursor = page.Cursor
		if len(page.Events) == 0 {
			return all
		}
		for _, e := range page.Events {
			text := e.Kind.String() + " " + e.Path
			if e.Kind == vfs.Moved {
				text = "moved " + e.From + " " + e.Path
			}
			if e.Own {
				text += " own"
			}
			if e.By != "" {
				text += " by " + e.By
			}
			all = append(all, text)
		}
	}
}

// told checks what is told.
func toldChanges(t *testing.T, what string, d *client.Dir, q *vfs.ChangesQuery, want ...string) {
	t.Helper()
	if got := changesOf(t, d, q); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// Who has done it is told to whom it was given on by, and nobody else. What is withheld is not told. A move over a boundary is a creation or
// a removal.
func TestChangesTold(t *testing.T) {
	tree := scene.InMemory(t, vfstest.Tree{"p/a": {Data: "a"}, "p/b": {Data: "b"}, "q/c": {Data: "c"}, "p/.env": {Data: "secret"}})
	ns := namespace.New()
	ok(t, ns.Mount("", tree, namespace.Options{Guards: []membrane.Guard{deny.Must("**/.env").Guard()}}))
	h := scene.Serve(t, ns.Root(), scene.Options{Record: true})
	ctx := t.Context()
	dialed := func(guest, path string) (*client.Conn, *client.Dir) {
		loc, _ := h.Grant(t, guest, path, false)
		c := scene.Dial(t, loc)
		return c, c.Dir(context.Background())
	}
	conn, d := dialed("agent", "p")
	_, other := dialed("other", "")
	id, loc, _, err := conn.ShareOn(ctx, d, client.ShareTerms{})
	ok(t, err)
	shared, sharedDir := guestOf(loc)
	defer shared.Close()
	put := func(d *client.Dir, path string) {
		t.Helper()
		_, err := d.Put(ctx, path, strings.NewReader(path+" new"), vfs.If{})
		ok(t, err)
	}
	mine, theirs, all, quiet := &vfs.ChangesQuery{}, &vfs.ChangesQuery{}, &vfs.ChangesQuery{}, &vfs.ChangesQuery{Others: true}
	ask := func(d *client.Dir, q *vfs.ChangesQuery) {
		page, err := d.Changes(ctx, *q)
		ok(t, err)
		q.Cursor = page.Cursor
	}
	ask(d, mine)
	ask(d, quiet)
	ask(sharedDir, theirs)
	ask(other, all)

	put(d, "a")
	put(sharedDir, "shared")
	put(other, "p/others")
	toldChanges(t, "the grant", d, mine, "changed a own", "created shared by "+id, "created others")
	toldChanges(t, "the grant, of others", d, quiet, "created shared by "+id, "created others")
	toldChanges(t, "the share", sharedDir, theirs, "changed a", "created shared own", "created others")
	toldChanges(t, "another", other, all, "changed p/a", "created p/shared", "created p/others own")

	ok(t, other.Move(ctx, "q/c", other, "p/c", vfs.If{}, vfs.If{}))
	ok(t, other.Move(ctx, "p/b", other, "q/b", vfs.If{}, vfs.If{}))
	toldChanges(t, "moves over the boundary", d, mine, "created c", "removed b")
	toldChanges(t, "the same moves", other, all, "moved q/c p/c own", "moved p/b q/b own")

	_, err = tree.Lookup(ctx, "p")
	ok(t, err)
	p, err := vfs.Walk(ctx, tree, "p")
	ok(t, err)
	_, err = p.(vfs.Dir).Replace(ctx, ".env", strings.NewReader("other"), vfs.If{})
	ok(t, err)
	toldChanges(t, "what is withheld", d, mine)

	// A cursor of another Dir, of another grant's Dir at the same place, and of the Dir below.
	for what, c := range map[string][]byte{"of a Dir above": all.Cursor, "of nobody": make([]byte, len(all.Cursor))} {
		page, err := d.Changes(ctx, vfs.ChangesQuery{Cursor: c})
		ok(t, err)
		if !page.Rescan || len(page.Events) > 0 {
			t.Errorf("a cursor %s answers %+v", what, page)
		}
	}
	// A directory that is removed, with somebody who waits for changes in it.
	made, err := d.CreateDir(ctx, "made")
	ok(t, err)
	inside := &vfs.ChangesQuery{Wait: time.Minute}
	ask(made, inside)
	ended := make(chan error, 1)
	go func() {
		_, err := made.Changes(ctx, *inside)
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	ok(t, other.RemovePath(ctx, "p/made", vfs.If{}))
	is(t, "changes in what was removed", <-ended, "stale")
}

// A revoke ends a call that waits, a lock refuses its answer, and the right is needed.
func TestChangesTakenBack(t *testing.T) {
	h := scene.Serve(t, scene.InMemory(t, vfstest.Tree{"d/f": {Data: "x"}}), scene.Options{Record: true})
	ctx := t.Context()
	loc, given := h.Grant(t, "agent", "d", false)
	_, d := guestOf(loc.String())
	_, err := d.Narrow(client.Read|client.List|client.Write).Changes(ctx, vfs.ChangesQuery{})
	is(t, "changes without the right to watch", err, "denied")
	page, err := d.ReadOnly().Changes(ctx, vfs.ChangesQuery{})
	ok(t, err)
	_, err = d.ReadOnly().Changes(ctx, vfs.ChangesQuery{Cursor: page.Cursor[1:]})
	is(t, "what is no cursor", err, "invalid")
	_, err = d.Temp().Changes(ctx, vfs.ChangesQuery{})
	is(t, "changes in a temporary directory", err, "unsupported")
	ended := make(chan error, 1)
	begun := time.Now()
	go func() {
		_, err := d.Changes(ctx, vfs.ChangesQuery{Cursor: page.Cursor, Wait: time.Minute})
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	_, err = h.Authority.Revoke(given.ID)
	ok(t, err)
	is(t, "changes of what was revoked", <-ended, "revoked")
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the call that waited ended after %v", took)
	}
}

// What one guest asks about is bounded, and is given back. Many who wait keep nobody from working.
func TestChangesBounded(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 40 {
		tree[fmt.Sprintf("d%d", i)] = vfstest.Node{Dir: true}
	}
	h := scene.Serve(t, scene.InMemory(t, tree), scene.Options{Record: true, Limits: meter.Limits{meter.Watches: 10}})
	ctx := t.Context()
	loc, _ := h.Grant(t, "agent", "", false)
	_, d := guestOf(loc.String())
	asked := 0
	for i := range 40 {
		_, err := d.SubDir(fmt.Sprintf("d%d", i)).Changes(ctx, vfs.ChangesQuery{})
		if vfs.CodeOf(err) == vfs.Limit {
			if !strings.Contains(err.Error(), "limit watches") {
				t.Errorf("the limit says %v", err)
			}
			break
		}
		ok(t, err)
		asked++
	}
	if asked != 10 {
		t.Errorf("%d directories could be asked about", asked)
	}
	_, err := d.SubDir("d3").Changes(ctx, vfs.ChangesQuery{})
	ok(t, err) // it is asked about already

	// 300 calls that wait, and one that works.
	waiting, cancel := context.WithCancel(ctx)
	page, err := d.SubDir("d0").Changes(ctx, vfs.ChangesQuery{})
	ok(t, err)
	sub := d.SubDir("d0")
	over := make(chan error, 300)
	for range 300 {
		go func() {
			_, err := sub.Changes(waiting, vfs.ChangesQuery{Cursor: page.Cursor, Wait: time.Minute})
			over <- err
		}()
	}
	time.Sleep(200 * time.Millisecond)
	begun := time.Now()
	_, err = d.Put(ctx, "d1/f", strings.NewReader("x"), vfs.If{})
	ok(t, err)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("beside those who wait a put took %v", took)
	}
	_, err = d.Put(ctx, "d0/f", strings.NewReader("x"), vfs.If{})
	ok(t, err)
	for range 300 {
		ok(t, <-over)
	}
	cancel()
}

// More than the host keeps is a rescan, and what fits no page comes with the next.
func TestChangesPages(t *testing.T) {
	h := scene.Serve(t, scene.InMemory(t, nil), scene.Options{})
	ctx := t.Context()
	loc, _ := h.Grant(t, "agent", "", false)
	_, d := guestOf(loc.String())
	page, err := d.Changes(ctx, vfs.ChangesQuery{})
	ok(t, err)
	first := page.Cursor
	const many = 2500
	made := func(from, to int) {
		t.Helper()
		errs := make(chan error, 8)
		for k := range 8 {
			go func() {
				for i := from + k; i < to; i += 8 {
					if _, err := d.Put(ctx, fmt.Sprintf("%s%d", strings.Repeat("x", 40), i), strings.NewReader(""), vfs.If{}); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range 8 {
			ok(t, <-errs)
		}
	}
	made(0, many)
	seen, pages := map[string]bool{}, 0
	for q := (vfs.ChangesQuery{Cursor: first}); len(seen) < many; pages++ {
		page, err := d.Changes(ctx, q)
		ok(t, err)
		if page.Rescan || len(page.Events) == 0 || len(page.Events) > 1000 {
			t.Fatalf("a page has %d events after %d; rescan %v", len(page.Events), len(seen), page.Rescan)
		}
		for _, e := range page.Events {
			if seen[e.Path] {
				t.Errorf("%s is told twice", e.Path)
			}
			seen[e.Path] = true
		}
		q.Cursor = page.Cursor
	}
	if pages < 3 {
		t.Errorf("%d pages have %d events", pages, many)
	}
}

package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/virtualfs"
)

// composed returns a VirtualFs that composes stores in memory. Each URL memory:NAME
// always names the same store, which beneath returns.
func composed(t *testing.T) (fs *virtualfs.FS, beneath func(name string) vfs.Dir) {
	t.Helper()
	stores := map[string]*memory.Store{}
	beneath = func(name string) vfs.Dir {
		if stores[name] == nil {
			stores[name] = memory.New(memory.Limits{})
		}
		return stores[name].Root()
	}
	fs = virtualfs.New(virtualfs.Options{
		Open: map[string]virtualfs.Opener{"memory": func(_ context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
			if u.Path == "" {
				return nil, vfs.Errorf(vfs.NotFound, "a store has a name here")
			}
			return &virtualfs.Store{Root: func() vfs.Dir { return beneath(u.Path) }, Deny: []string{"**/.env"}}, nil
		}},
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root()}, nil
		},
		Journal: memory.New(memory.Limits{}).Root(),
		Logf:    t.Logf,
	})
	t.Cleanup(func() { ok(t, fs.Close()) })
	return fs, beneath
}

// An operator uses a copy-on-write mount from beginning to end.
func TestComposed(t *testing.T) {
	h, beneath := composed(t)
	fs := virtualFs(t, h)
	ctx := t.Context()
	put := func(d vfs.Dir, path, text string) {
		t.Helper()
		_, err := vfs.Put(ctx, d, path, strings.NewReader(text), vfs.If{})
		ok(t, err)
	}
	there := func(path string) bool {
		_, err := vfs.StatAt(ctx, beneath("a"), path, false)
		return err == nil
	}
	put(beneath("a"), "old", "as it was")
	ok(t, fs.Mount(ctx, "p", "overlay:memory:a", operator.Attenuation{}))
	ok(t, fs.Mount(ctx, "p/below", "memory:b", operator.Attenuation{ReadOnly: true, Deny: []string{}}))
	is(t, "mounting twice", fs.Mount(ctx, "p", "memory:c", operator.Attenuation{}), vfs.Exists)
	is(t, "mounting what is not there", fs.Mount(ctx, "q", "memory:", operator.Attenuation{}), vfs.NotFound)
	is(t, "mounting what nobody knows", fs.Mount(ctx, "q", "ftp://x", operator.Attenuation{}), vfs.Invalid)
	is(t, "unmounting what is not there", fs.Unmount(ctx, "q"), vfs.NotFound)

	root, ctl, err := fs.Root(ctx)
	ok(t, err)
	defer root.Close()
	defer ctl.Close()
	const files = 1200 // more than a page
	p, err := vfs.WalkDir(ctx, root, "p")
	ok(t, err)
	defer p.Close()
	for i := range files {
		put(p, fmt.Sprintf("new%04d", i), "x\n")
	}
	put(p, "old", "changed\n")
	_, err = vfs.Put(ctx, root, "p/below/x", strings.NewReader("x"), vfs.If{})
	is(t, "writing to what is mounted read-only", err, vfs.ReadOnly)
	_, err = vfs.Put(ctx, root, "p/.env", strings.NewReader("x"), vfs.If{})
	is(t, "writing what the kind of store withholds", err, vfs.Denied)

	mounts, err := fs.Mounts(ctx)
	ok(t, err)
	same(t, "mounts", mounts, []operator.Mount{
		{Path: "p", URL: "overlay:memory:a", Kind: "overlay", Changes: true},
		{Path: "p/below", URL: "memory:b", Kind: "memory", Attenuation: operator.Attenuation{ReadOnly: true, Deny: []string{}}},
	})
	var changes []diff.Change
	_, err = fs.Diff(ctx, "p", operator.DiffOptions{Text: true}, "", collect(&changes))
	ok(t, err)
	if len(changes) != files+1 || changes[0].Kind != diff.Added || changes[files].Kind != diff.Modified ||
		!strings.Contains(changes[files].Text, "+changed") {
		t.Errorf("%d changes, from %+v to %+v", len(changes), changes[0], changes[len(changes)-1])
	}
	_, err = fs.Diff(ctx, "p/below", operator.DiffOptions{}, "", collect(&changes))
	is(t, "the changes of a mount that keeps none", err, vfs.Unsupported)
	_, err = fs.Commit(ctx, "p", operator.Commit{Message: "x"})
	is(t, "a commit of what is no git mount", err, vfs.Unsupported)

	applied, err := fs.Apply(ctx, "p", operator.ApplyOptions{Paths: []string{"new0000", "new0001"}}, func(int64, int64) {})
	ok(t, err)
	if applied.Changes != 2 || applied.ID == "" || !there("new0001") || there("new0002") {
		t.Errorf("two were applied: %+v", applied)
	}
	ok(t, fs.Undo(ctx, "p", applied.ID))
	if there("new0000") {
		t.Error("what was undone is there")
	}
	is(t, "undoing again", fs.Undo(ctx, "p", applied.ID), vfs.NotFound)

	// Somebody else makes 1100 of the files meanwhile.
	for i := range 1100 {
		put(beneath("a"), fmt.Sprintf("new%04d", i), "other\n")
	}
	_, err = fs.Apply(ctx, "p", operator.ApplyOptions{}, nil)
	conflicts, listed := errors.AsType[*diff.Conflicts](err)
	if !listed || len(conflicts.Paths) != 1100 || there("new1150") {
		t.Errorf("an apply over 1100 files that somebody else made: %.300v", err)
	}
	n, err := fs.Revert(ctx, "p", []string{"old"})
	if ok(t, err); n != 1 {
		t.Errorf("%d changes were dropped", n)
	}
	ok(t, fs.Unmount(ctx, "p/below"))
	ok(t, fs.Unmount(ctx, "p"))
	mounts, err = fs.Mounts(ctx)
	ok(t, err)
	same(t, "mounts at the end", mounts, []operator.Mount{})
	_, err = p.Stat(ctx)
	is(t, "what was open in a mount", err, vfs.Stale)
}

// The result of diff can be passed to apply, over the wire.
func TestReviewOverTheWire(t *testing.T) {
	h, _ := composed(t)
	fs := virtualFs(t, h)
	ctx := t.Context()
	ok(t, fs.Mount(ctx, "p", "overlay:memory:a", operator.Attenuation{}))
	ok(t, fs.Mount(ctx, "plain", "memory:b", operator.Attenuation{}))
	root, ctl, err := fs.Root(ctx)
	ok(t, err)
	defer root.Close()
	defer ctl.Close()
	put := func(path, text string) {
		t.Helper()
		_, err := vfs.Put(ctx, root, path, strings.NewReader(text), vfs.If{})
		ok(t, err)
	}
	look := func(paths ...string) operator.Review {
		t.Helper()
		r, err := fs.Diff(ctx, "p", operator.DiffOptions{Paths: paths}, "", func(diff.Change) bool { return false })
		ok(t, err)
		if r == (operator.Review{}) {
			t.Fatal("diff answers no review")
		}
		return r
	}
	apply := func(r operator.Review, paths ...string) (int, error) {
		a, err := fs.Apply(ctx, "p", operator.ApplyOptions{If: r, Paths: paths}, nil)
		return a.Changes, err
	}
	none := look()
	for _, name := range []string{"a", "b", "c"} {
		put("p/"+name, "1")
	}
	_, err = apply(none)
	is(t, "an apply of what came after a diff that had nothing", err, vfs.Conflict)
	all, some := look(), look("a", "b")
	put("p/c", "2")
	_, err = apply(all)
	is(t, "an apply of what is no longer as it was reviewed", err, vfs.Conflict)
	_, err = apply(some, "a")
	is(t, "an apply of less than what was reviewed", err, vfs.Conflict)
	n, err := apply(some, "a", "b")
	if ok(t, err); n != 2 {
		t.Errorf("%d of the 2 changes that were reviewed were applied", n)
	}
	if n, err := apply(look()); err != nil || n != 1 {
		t.Errorf("%d changes were applied, %v; want the one that is left", n, err)
	}
	if n, err := apply(look()); err != nil || n != 0 {
		t.Errorf("%d changes were applied of none, %v", n, err)
	}
}

// If one page of a diff is of another moment, no changes have its review.
func TestReviewOfPages(t *testing.T) {
	h, _ := composed(t)
	fs := virtualFs(t, h)
	ctx := t.Context()
	ok(t, fs.Mount(ctx, "p", "overlay:memory:a", operator.Attenuation{}))
	root, ctl, err := fs.Root(ctx)
	ok(t, err)
	defer root.Close()
	defer ctl.Close()
	put := func(path, text string) {
		t.Helper()
		_, err := vfs.Put(ctx, root, path, strings.NewReader(text), vfs.If{})
		ok(t, err)
	}
	for i := range 8 {
		put(fmt.Sprintf("p/f%d", i), strings.Repeat("line\n", 50<<10))
	}
	look := func(do func(n int)) operator.Review {
		t.Helper()
		n := 0
		r, err := fs.Diff(ctx, "p", operator.DiffOptions{Text: true}, "", func(diff.Change) bool { n++; do(n); return true })
		if ok(t, err); n != 8 {
			t.Fatalf("%d changes, want 8", n)
		}
		return r
	}
	seen := look(func(int) {})
	mixed := look(func(n int) {
		if n == 1 { // the page that it is on was answered
			put("p/f7", "other")
		}
	})
	for what, r := range map[string]operator.Review{"the first page": seen, "pages of two moments": mixed} {
		_, err := fs.Apply(ctx, "p", operator.ApplyOptions{If: r}, nil)
		is(t, "an apply with the review of "+what, err, vfs.Conflict)
	}
	put("p/f7", strings.Repeat("line\n", 50<<10)) // as the first page had it
	_, err = fs.Apply(ctx, "p", operator.ApplyOptions{If: mixed}, nil)
	is(t, "an apply of what the first page was of", err, vfs.Conflict)
	_, err = fs.Apply(ctx, "p", operator.ApplyOptions{If: seen}, nil)
	ok(t, err)
}

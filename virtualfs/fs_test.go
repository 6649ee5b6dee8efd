package virtualfs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

var is = check.Is

// stores are memory stores by name: mem:NAME.
type stores struct {
	t      testing.TB
	byName map[string]*memory.Store
	closed []string
}

func (s *stores) open(_ context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	m := s.byName[u.Path]
	if m == nil {
		return nil, vfs.Errorf(vfs.NotFound, "there is no store %q", u.Path)
	}
	return &virtualfs.Store{
		Root: m.Root, Close: func() error { s.closed = append(s.closed, u.Path); return nil },
		Deny: []string{"**/secret"}, Ask: []string{"**/hook"},
	}, nil
}

func newFS(t testing.TB, names ...string) (*virtualfs.FS, *stores) {
	t.Helper()
	s := &stores{t: t, byName: map[string]*memory.Store{}}
	for _, name := range names {
		s.byName[name] = memory.New(memory.Limits{})
	}
	fs := virtualfs.New(virtualfs.Options{
		Open:    map[string]virtualfs.Opener{"mem": s.open},
		Journal: memory.New(memory.Limits{}).Root(),
		Upper: func(context.Context, *virtualfs.URL) (vfs.Dir, func() error, error) {
			return memory.New(memory.Limits{}).Root(), func() error { s.closed = append(s.closed, "upper"); return nil }, nil
		},
		Logf: t.Logf,
	})
	t.Cleanup(func() { fs.Close() })
	return fs, s
}

func mounts(t testing.TB, fs *virtualfs.FS, at ...string) {
	t.Helper()
	for i := 0; i < len(at); i += 2 {
		if err := fs.Mount(t.Context(), at[i], at[i+1], operator.Attenuation{}); err != nil {
			t.Fatalf("mounting %s: %v", at[i+1], err)
		}
	}
}

func put(t testing.TB, d vfs.Dir, path, text string) {
	t.Helper()
	if _, err := vfs.Put(t.Context(), d, path, strings.NewReader(text), vfs.If{}); err != nil {
		t.Fatalf("put %s: %v", path, err)
	}
}

func diffOf(t testing.TB, fs *virtualfs.FS, path string, o operator.DiffOptions) (all []string) {
	t.Helper()
	if _, err := fs.Diff(t.Context(), path, o, "", func(c diff.Change) bool {
		all = append(all, string(c.Kind)+" "+c.Path)
		return true
	}); err != nil {
		t.Errorf("diff of %s: %v", path, err)
	}
	return all
}

func TestMounts(t *testing.T) {
	fs, s := newFS(t, "a", "b")
	mounts(t, fs, "x", "mem:a", "y/z", "overlay:mem:b")
	var at []string
	for _, m := range fs.Mounts() {
		at = append(at, m.Path+" "+m.URL+" "+m.Kind)
	}
	if want := []string{"x mem:a mem", "y/z overlay:mem:b overlay"}; !slices.Equal(at, want) {
		t.Errorf("mounts are %q, want %q", at, want)
	}
	ctx := t.Context()
	is(t, "twice", fs.Mount(ctx, "x", "mem:b", operator.Attenuation{}), vfs.Exists)
	is(t, "a bad path", fs.Mount(ctx, "../x", "mem:b", operator.Attenuation{}), vfs.Invalid)
	is(t, "a bad URL", fs.Mount(ctx, "n", "mem", operator.Attenuation{}), vfs.Invalid)
	is(t, "no such kind", fs.Mount(ctx, "n", "ftp:x", operator.Attenuation{}), vfs.Invalid)
	is(t, "no such store", fs.Mount(ctx, "n", "mem:none", operator.Attenuation{}), vfs.NotFound)
	is(t, "a bad pattern", fs.Mount(ctx, "n", "mem:b", operator.Attenuation{Deny: []string{"[x"}}), vfs.Invalid)
	is(t, "unmounting nothing", fs.Unmount(ctx, "y"), vfs.NotFound)
	s.closed = nil
	is(t, "unmount", fs.Unmount(ctx, "y/z"), "")
	if want := []string{"upper", "b"}; !slices.Equal(s.closed, want) {
		t.Errorf("closed %q, want %q", s.closed, want)
	}
	mounts(t, fs, "y/z", "mem:b")
}

// refuse is a guard of a host's own, which answers limit for one path.
func refuse(path string) vfs.Guard {
	return vfs.Guard{Around: func(ctx context.Context, op vfs.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
		if op.Path == path {
			return vfs.Effect{}, vfs.Limit
		}
		return do(ctx)
	}}
}

// An apply goes by the mount's own guards too, as a guest's change of what lies beneath would.
func TestOwnGuardOfAnApply(t *testing.T) {
	fs, s := newFS(t, "a")
	a := operator.Attenuation{Guards: []vfs.Guard{{Changes: true, Around: func(ctx context.Context, op vfs.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
		if op.Batch != vfs.Alone && op.Path == "f" {
			return vfs.Effect{}, vfs.Limit
		}
		return do(ctx)
	}}}}
	if err := fs.Mount(t.Context(), "m", "overlay:mem:a", a); err != nil {
		t.Fatal(err)
	}
	d, ctl, err := fs.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Release()
	defer d.Close()
	put(t, d, "m/f", "x")
	_, err = fs.Apply(t.Context(), "m", operator.ApplyOptions{}, nil)
	is(t, "an apply that the guard refuses", err, vfs.Limit)
	_, err = s.byName["a"].Root().Lookup(t.Context(), "f")
	is(t, "what it would have changed", err, vfs.NotFound)
}

// Patterns are the store's, or the mount's own; an empty list is no pattern.
func TestAttenuation(t *testing.T) {
	fs, s := newFS(t, "a")
	put(t, s.byName["a"].Root(), "secret", "s")
	put(t, s.byName["a"].Root(), "hook", "h")
	ctx := t.Context()
	for _, c := range []struct {
		a                   operator.Attenuation
		secret, hook, other vfs.Code // looking at secret, writing hook, writing other
	}{
		{operator.Attenuation{}, vfs.Denied, vfs.AskDenied, ""},
		{operator.Attenuation{Deny: []string{}, Ask: []string{}}, "", "", ""},
		{operator.Attenuation{Deny: []string{"other"}, Ask: []string{"x"}}, "", "", vfs.Denied},
		{operator.Attenuation{ReadOnly: true}, vfs.Denied, vfs.ReadOnly, vfs.ReadOnly},
		{operator.Attenuation{Guards: []vfs.Guard{refuse("other")}}, vfs.Denied, vfs.AskDenied, vfs.Limit},
		{operator.Attenuation{Deny: []string{}, Guards: []vfs.Guard{refuse("secret")}}, vfs.Limit, vfs.AskDenied, ""},
		{operator.Attenuation{Bytes: 3}, vfs.Denied, vfs.AskDenied, vfs.Quota},
	} {
		if err := fs.Mount(ctx, "m", "mem:a", c.a); err != nil {
			t.Fatal(err)
		}
		d, ctl, err := fs.Root(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = vfs.Walk(ctx, d, "m/secret")
		is(t, "looking at what is withheld", err, c.secret)
		_, err = vfs.Put(ctx, d, "m/hook", strings.NewReader("x"), vfs.If{})
		is(t, "writing what is guarded", err, c.hook)
		_, err = vfs.Put(ctx, d, "m/other", strings.NewReader("four"), vfs.If{})
		is(t, "writing another", err, c.other)
		if n, err := s.byName["a"].Root().Lookup(ctx, "other"); err == nil {
			n.Close()
			is(t, "removing it", s.byName["a"].Root().Remove(ctx, "other", vfs.If{}), "")
		}
		ctl.Release()
		d.Close()
		is(t, "unmount", fs.Unmount(ctx, "m"), "")
	}
}

func TestReview(t *testing.T) {
	fs, s := newFS(t, "a", "plain")
	lower := s.byName["a"].Root()
	put(t, lower, "keep", "1")
	put(t, lower, "edit", "1\n")
	put(t, lower, "gone", "1")
	mounts(t, fs, "draft", "overlay:mem:a", "plain", "mem:plain")
	ctx := t.Context()
	d, _, err := fs.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, "draft/edit", "2\n")
	put(t, d, "draft/new", "2")
	put(t, d, "draft/also", "2")
	if dir, err := vfs.WalkDir(ctx, d, "draft"); err != nil || dir.Remove(ctx, "gone", vfs.If{}) != nil {
		t.Fatal("gone was not removed", err)
	}
	if got, want := diffOf(t, fs, "draft", operator.DiffOptions{}), []string{"added also", "modified edit", "removed gone", "added new"}; !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	if got := diffOf(t, fs, "draft", operator.DiffOptions{Paths: []string{"edit", "keep"}}); !slices.Equal(got, []string{"modified edit"}) {
		t.Errorf("the changes at edit are %q", got)
	}
	_, err = fs.Diff(ctx, "draft", operator.DiffOptions{Paths: []string{"edit", "x"}}, "", nil)
	is(t, "diff of a path with nothing there and no change", err, vfs.NotFound)
	_, err = fs.Revert(ctx, "draft", []string{"gone", "edit/x"})
	is(t, "revert of such a path", err, vfs.NotFound)
	_, err = fs.Apply(ctx, "draft", operator.ApplyOptions{Paths: []string{"x"}}, nil)
	is(t, "apply of such a path", err, vfs.NotFound)
	var text string
	if _, err := fs.Diff(ctx, "draft", operator.DiffOptions{Text: true}, "also", func(c diff.Change) bool { text += c.Text; return false }); err != nil || !strings.Contains(text, "\n-1\n+2\n") {
		t.Errorf("the text is %q, %v", text, err)
	}
	_, err = fs.Diff(ctx, "plain", operator.DiffOptions{}, "", nil)
	is(t, "diff of what has none", err, vfs.Unsupported)
	_, err = fs.Diff(ctx, "draft", operator.DiffOptions{From: "a"}, "", nil)
	is(t, "diff of revisions", err, vfs.Unsupported)
	_, err = fs.Apply(ctx, "plain", operator.ApplyOptions{}, nil)
	is(t, "apply of what has none", err, vfs.Unsupported)
	_, err = fs.Commit(ctx, "draft", operator.Commit{})
	is(t, "commit of what is no git mount", err, vfs.Unsupported)

	// Both sides changed: nothing is applied, and every path is told.
	put(t, lower, "edit", "3")
	put(t, lower, "also", "3")
	text = ""
	if _, err := fs.Diff(ctx, "draft", operator.DiffOptions{Text: true, Paths: []string{"edit"}}, "", func(c diff.Change) bool { text += c.Text; return true }); err != nil || !strings.Contains(text, "changed beneath as well") || !strings.Contains(text, "-3\n") || !strings.Contains(text, "+2\n") {
		t.Errorf("the text of what both sides changed is %q, %v", text, err)
	}
	_, err = fs.Apply(ctx, "draft", operator.ApplyOptions{}, nil)
	var c *diff.Conflicts
	if !errors.As(err, &c) || len(c.Paths) != 2 {
		t.Errorf("apply over others' changes: %v", err)
	}
	n, err := fs.Revert(ctx, "draft", []string{"edit", "also"})
	if err != nil || n != 2 {
		t.Errorf("revert dropped %d, %v", n, err)
	}
	seen, err := fs.Diff(ctx, "draft", operator.DiffOptions{}, "", func(diff.Change) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, "draft/new", "not seen")
	_, err = fs.Apply(ctx, "draft", operator.ApplyOptions{If: seen}, nil)
	is(t, "apply of what nobody reviewed", err, vfs.Conflict)
	put(t, d, "draft/new", "2")
	a, err := fs.Apply(ctx, "draft", operator.ApplyOptions{If: seen}, nil)
	if err != nil || a.Changes != 2 || a.ID == "" {
		t.Fatalf("apply: %+v, %v", a, err)
	}
	if _, err := lower.Lookup(ctx, "gone"); vfs.CodeOf(err) != vfs.NotFound {
		t.Errorf("what was removed is there after the apply: %v", err)
	}
	if got := diffOf(t, fs, "draft", operator.DiffOptions{}); got != nil || fs.Mounts()[0].Changes {
		t.Errorf("after the apply there are %q", got)
	}
	is(t, "undo of another", fs.Undo(ctx, "draft", "none"), vfs.NotFound)
	is(t, "undo", fs.Undo(ctx, "draft", a.ID), "")
	if got, want := diffOf(t, fs, "draft", operator.DiffOptions{}), []string{"removed gone", "added new"}; !slices.Equal(got, want) {
		t.Errorf("after the undo there are %q, want %q", got, want)
	}
	is(t, "undo twice", fs.Undo(ctx, "draft", a.ID), vfs.NotFound)
}

// What the mount withholds by now is not applied, whatever it was when it was
// written, nor is anything else then.
func TestApplyAsksTheGuards(t *testing.T) {
	fs, _ := newFS(t, "a")
	ctx := t.Context()
	if err := fs.Mount(ctx, "draft", "overlay:mem:a", operator.Attenuation{Deny: []string{"**/new"}}); err != nil {
		t.Fatal(err)
	}
	d, _, err := fs.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = vfs.Put(ctx, d, "draft/new", strings.NewReader("x"), vfs.If{})
	is(t, "writing what is withheld", err, vfs.Denied)
	put(t, d, "draft/old", "x")
	if _, err := fs.Apply(ctx, "draft", operator.ApplyOptions{}, nil); err != nil {
		t.Error(err)
	}
}

// What an apply refuses is told with its place in the mount.
func TestApplyNamesPath(t *testing.T) {
	fs, s := newFS(t, "a")
	put(t, s.byName["a"].Root(), "one", "x")
	mounts(t, fs, "draft", "overlay:mem:a")
	d, _, err := fs.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in, err := vfs.WalkDir(t.Context(), d, "draft")
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Rename(t.Context(), "one", in, "two", vfs.If{}, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	_, err = fs.Apply(t.Context(), "draft", operator.ApplyOptions{Paths: []string{"two"}}, nil)
	var e *vfs.Error
	if !errors.As(err, &e) || e.Code != vfs.Invalid || e.Path != "draft/one" {
		t.Errorf("apply of one place of what was moved: %v, want invalid that names draft/one", err)
	}
}

// A revert gives back what the dropped changes had used of the mount's allowance.
func TestRevertGivesBack(t *testing.T) {
	fs, s := newFS(t, "a")
	beneath := s.byName["a"].Root()
	put(t, beneath, "old", strings.Repeat("o", 1000))
	if _, err := beneath.Mkdir(t.Context(), "dir"); err != nil {
		t.Fatal(err)
	}
	put(t, beneath, "dir/in", strings.Repeat("i", 10))
	a := operator.Attenuation{Bytes: 1000, Nodes: 5, Deny: []string{}, Ask: []string{}}
	if err := fs.Mount(t.Context(), "d", "overlay:mem:a", a); err != nil {
		t.Fatal(err)
	}
	top := vfs.Guarded(fs.Tree(), nil)
	defer top.Close()
	write := func(path string, size int) error {
		_, err := vfs.Put(t.Context(), top, "d/"+path, strings.NewReader(strings.Repeat("x", size)), vfs.If{})
		return err
	}
	revert := func(paths ...string) {
		t.Helper()
		_, err := fs.Revert(t.Context(), "d", paths)
		is(t, "revert", err, "")
	}
	full := func(what string, left int) {
		t.Helper()
		is(t, what+", one byte too many", write("probe", left+1), vfs.Quota)
		is(t, what+", all that is left", write("probe", left), "")
		revert("probe")
	}
	remove := func(path string) {
		t.Helper()
		d, name, release, err := vfs.WalkParent(t.Context(), top, "d/"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		is(t, "remove", d.Remove(t.Context(), name, vfs.If{}), "")
	}
	full("at first", 1000)
	is(t, "put", write("new", 800), "")
	is(t, "put", write("dir/in", 110), "")
	full("with two written", 100)
	err := write("more", 200)
	if err == nil || !strings.Contains(err.Error(), "quota of what is mounted here") {
		t.Errorf("what the mount has no room for: %v; it is to be said that it is the mount", err)
	}
	revert("dir")
	full("with one reverted", 200)
	revert()
	full("with all reverted", 1000)
	// What frees nothing when it goes uses nothing up when it comes back.
	remove("old")
	is(t, "put", write("new", 500), "")
	revert()
	full("after a removal was reverted", 1000)
	// What was let in stays used.
	is(t, "put", write("kept", 400), "")
	_, err = fs.Apply(t.Context(), "d", operator.ApplyOptions{}, nil)
	is(t, "apply", err, "")
	remove("kept")
	is(t, "put", write("new", 400), "")
	revert()
	full("with some applied", 600)
	// A directory that is moved, with what is in it changed.
	d, err := vfs.WalkDir(t.Context(), top, "d")
	is(t, "walk", err, "")
	is(t, "rename", d.Rename(t.Context(), "dir", d, "moved", vfs.If{}, vfs.If{}), "")
	d.Close()
	is(t, "put", write("moved/in", 60), "")
	full("with a move", 550)
	revert()
	full("with the move reverted", 600)
}

// An apply asks the guards that the mount has today, whatever it had when the change was
// written.
func TestApplyAsksTodaysGuards(t *testing.T) {
	lower, upper := memory.New(memory.Limits{}), memory.New(memory.Limits{})
	fs := virtualfs.New(virtualfs.Options{
		Open: map[string]virtualfs.Opener{"mem": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
			return &virtualfs.Store{Root: lower.Root}, nil
		}},
		Journal: memory.New(memory.Limits{}).Root(),
		Upper: func(context.Context, *virtualfs.URL) (vfs.Dir, func() error, error) {
			return upper.Root(), func() error { return nil }, nil
		},
	})
	defer fs.Close()
	top := vfs.Guarded(fs.Tree(), nil)
	defer top.Close()
	mounts(t, fs, "d", "overlay:mem:x")
	put(t, top, "d/secret", "text")
	is(t, "unmount", fs.Unmount(t.Context(), "d"), "")
	for _, a := range []operator.Attenuation{{Deny: []string{"**/secret"}}, {Ask: []string{"**/secret"}}} {
		if err := fs.Mount(t.Context(), "d", "overlay:mem:x", a); err != nil {
			t.Fatal(err)
		}
		want := vfs.Denied
		if a.Ask != nil {
			want = vfs.AskDenied
		}
		_, err := fs.Apply(t.Context(), "d", operator.ApplyOptions{}, nil)
		is(t, "apply", err, want)
		is(t, "unmount", fs.Unmount(t.Context(), "d"), "")
	}
	root := lower.Root()
	defer root.Close()
	_, err := root.Lookup(t.Context(), "secret")
	is(t, "what was not let in", err, vfs.NotFound)
}

// The journal keeps the last applies of a mount, and no more.
func TestOldAppliesAreForgotten(t *testing.T) {
	journal := memory.New(memory.Limits{})
	lower := memory.New(memory.Limits{})
	fs := virtualfs.New(virtualfs.Options{
		Open: map[string]virtualfs.Opener{"mem": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
			return &virtualfs.Store{Root: lower.Root}, nil
		}},
		Journal: journal.Root(),
		Upper: func(context.Context, *virtualfs.URL) (vfs.Dir, func() error, error) {
			return memory.New(memory.Limits{}).Root(), func() error { return nil }, nil
		},
	})
	defer fs.Close()
	top := vfs.Guarded(fs.Tree(), nil)
	defer top.Close()
	mounts(t, fs, "d", "overlay:mem:x")
	var ids []string
	for i := range 20 {
		put(t, top, "d/f", strings.Repeat("x", i+1))
		a, err := fs.Apply(t.Context(), "d", operator.ApplyOptions{}, nil)
		is(t, "apply", err, "")
		ids = append(ids, a.ID)
	}
	kept, err := batch.List(t.Context(), journal.Root())
	if err != nil || len(kept) != 16 {
		t.Errorf("the journal has %d applies, %v; want the last 16", len(kept), err)
	}
	for _, k := range kept {
		if !slices.Contains(ids[4:], k.ID) {
			t.Errorf("the journal has %s, which is not one of the last", k.ID)
		}
	}
	is(t, "undo of what was forgotten", fs.Undo(t.Context(), "d", ids[0]), vfs.NotFound)
	is(t, "unmount", fs.Unmount(t.Context(), "d"), "")
	if kept, err = batch.List(t.Context(), journal.Root()); err != nil || len(kept) != 0 {
		t.Errorf("after the unmount the journal has %d applies, %v", len(kept), err)
	}
}

// What the Options have nothing for is unsupported, and closes what was opened on the way.
func TestWithoutOptions(t *testing.T) {
	opened := 0
	store := memory.New(memory.Limits{})
	fs := virtualfs.New(virtualfs.Options{Open: map[string]virtualfs.Opener{"mem": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
		opened++
		return &virtualfs.Store{Root: store.Root, Close: func() error { opened--; return nil }}, nil
	}}})
	ctx := t.Context()
	is(t, "mount", fs.Mount(ctx, "m", "mem:a", operator.Attenuation{}), "")
	is(t, "an overlay", fs.Mount(ctx, "o", "overlay:mem:a", operator.Attenuation{}), vfs.Unsupported)
	if opened != 1 {
		t.Errorf("%d stores are open, want 1", opened)
	}
	_, err := fs.Snapshot(ctx, "m", "", "", nil)
	is(t, "snapshot", err, vfs.Unsupported)
	_, err = fs.Materialize(ctx, "m", operator.Bounds{}, nil)
	is(t, "materialize", err, vfs.Unsupported)
	is(t, "a store that nobody opens", fs.Mount(ctx, "x", "other:", operator.Attenuation{}), vfs.Invalid)
	is(t, "unmount", fs.Unmount(ctx, "m"), "")
	if err := fs.Close(); err != nil || opened != 0 {
		t.Errorf("%d stores are open at the end, %v", opened, err)
	}

	fs = virtualfs.New(virtualfs.Options{})
	defer fs.Close()
	is(t, "mount, of nothing at all", fs.Mount(ctx, "m", "mem:a", operator.Attenuation{}), vfs.Invalid)

	// Without a journal nothing is let in.
	o := virtualfs.Options{
		Open: map[string]virtualfs.Opener{"mem": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
			return &virtualfs.Store{Root: store.Root}, nil
		}},
		Upper: func(context.Context, *virtualfs.URL) (vfs.Dir, func() error, error) {
			return memory.New(memory.Limits{}).Root(), nil, nil
		},
	}
	fs = virtualfs.New(o)
	defer fs.Close()
	mounts(t, fs, "o", "overlay:mem:a")
	d, _, err := fs.Root(ctx)
	is(t, "root", err, "")
	defer d.Close()
	put(t, d, "o/f", "x")
	_, err = fs.Apply(ctx, "o", operator.ApplyOptions{}, nil)
	is(t, "apply", err, vfs.Unsupported)
	is(t, "undo", fs.Undo(ctx, "o", "id"), vfs.Unsupported)
	n, err := fs.Revert(ctx, "o", nil)
	if is(t, "revert", err, ""); n != 1 {
		t.Errorf("%d changes were dropped", n)
	}
	is(t, "unmount", fs.Unmount(ctx, "o"), "")
}

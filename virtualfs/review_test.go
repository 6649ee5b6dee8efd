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
	"capd/vfs/membrane"
	"capd/virtualfs"
)

// refuse is a guard of a host's own, which answers limit for one path.
func refuse(path string) membrane.Guard {
	return membrane.Guard{Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
		if op.Path == path {
			return vfs.Effect{}, vfs.Limit
		}
		return do(ctx)
	}}
}

// An apply asks the mount's own guards too, as a guest's change of the tree below would.
func TestOwnGuardOfAnApply(t *testing.T) {
	fs, s := newFS(t, "a")
	a := operator.Attenuation{Guards: []membrane.Guard{{Changes: true, Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
		if op.Batch != membrane.Alone && op.Path == "f" {
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

	// Both sides changed: nothing is applied, and every path is listed.
	put(t, lower, "edit", "3")
	put(t, lower, "also", "3")
	text = ""
	if _, err := fs.Diff(ctx, "draft", operator.DiffOptions{Text: true, Paths: []string{"edit"}}, "", func(c diff.Change) bool { text += c.Text; return true }); err != nil || !strings.Contains(text, "the tree below changed here too") || !strings.Contains(text, "-3\n") || !strings.Contains(text, "+2\n") {
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

// If the mount withholds one of the paths by now, nothing is applied, even if it did not
// withhold the path when the guest wrote there.
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

// The error of an apply has the path in the mount.
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
	top := membrane.Guarded(fs.Tree(), nil)
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
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			return &virtualfs.Upper{Tree: upper.Root()}, nil
		},
	})
	defer fs.Close()
	top := membrane.Guarded(fs.Tree(), nil)
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
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root()}, nil
		},
	})
	defer fs.Close()
	top := membrane.Guarded(fs.Tree(), nil)
	defer top.Close()
	mounts(t, fs, "d", "overlay:mem:x")
	var ids []string
	for i := range 20 {
		put(t, top, "d/f", strings.Repeat("x", i+1))
		a, err := fs.Apply(t.Context(), "d", operator.ApplyOptions{}, nil)
		is(t, "apply", err, "")
		ids = append(ids, a.ID)
	}
	kept := appliesIn(t, journal.Root())
	slices.Sort(ids[4:]) // some may be of the same millisecond
	if !slices.Equal(kept, ids[4:]) {
		t.Errorf("the journal has the applies %q, want the last 16, %q", kept, ids[4:])
	}
	is(t, "undo of what was forgotten", fs.Undo(t.Context(), "d", ids[0]), vfs.NotFound)
	is(t, "unmount", fs.Unmount(t.Context(), "d"), "")
	if kept = appliesIn(t, journal.Root()); len(kept) != 0 {
		t.Errorf("after the unmount the journal has the applies %q", kept)
	}
}

// appliesIn returns the ids of the batches that journal keeps, in byte order.
func appliesIn(t *testing.T, journal vfs.Dir) (ids []string) {
	t.Helper()
	for e, err := range journal.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := strings.CutSuffix(e.Name, ".intent"); ok {
			if _, err := batch.Load(t.Context(), journal, id); err != nil {
				t.Errorf("batch %s: %v", id, err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

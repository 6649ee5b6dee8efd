package overlay_test

import (
	"fmt"
	"slices"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/faultfs"
	"capd/vfs/overlay"
)

// TestLowerIsGone closes the lower tree. The overlay does not treat what it then cannot
// know as absent.
func TestLowerIsGone(t *testing.T) {
	store := memory.New(memory.Limits{})
	fill(t, store.Root(), modelTree)
	lower := store.Root()
	o := laid(t, lower, memoryUpper(t))
	work(t, o.Root())
	changes, patch, err := o.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lower.Close()

	stale := func(what string, err error) {
		t.Helper()
		if vfs.CodeOf(err) != vfs.Stale {
			t.Errorf("%s: %v, want stale", what, err)
		}
	}
	ctx, root := t.Context(), o.Root()
	for _, name := range []string{"d", "nothing"} {
		_, err := root.Lookup(ctx, name)
		stale("Lookup of "+name, err)
		_, err = root.Mkdir(ctx, name)
		stale("Mkdir of "+name, err)
		stale("Remove of "+name, root.Remove(ctx, name, vfs.If{}))
	}
	_, err = root.Stat(ctx)
	stale("Stat", err)
	stale("List", draw(ctx, root, "", map[string]string{}))
	_, err = o.Diff(ctx, "")
	stale("Diff", err)
	for _, c := range changes {
		if c.Kind == diff.Modified {
			_, _, err := patch.Text(ctx, c)
			stale("Text of "+c.Path, err)
		}
	}
	_, err = o.Apply(ctx, overlay.ApplyOptions{Journal: memoryUpper(t), Target: store.Root()})
	stale("Apply", err)
}

// TestLowerFails makes each request to the lower tree fail in turn. The answer is an
// error, or the same as without the failure.
func TestLowerFails(t *testing.T) {
	store := memory.New(memory.Limits{})
	fill(t, store.Root(), modelTree)
	plan := &faultfs.Plan{}
	o := laid(t, faultfs.New(store.Root(), plan), memoryUpper(t))
	work(t, o.Root())
	ask := func() (string, error) {
		all := map[string]string{}
		root := o.Root()
		defer root.Close()
		if err := draw(t.Context(), root, "", all); err != nil {
			return "", err
		}
		changes, err := o.Diff(t.Context(), "")
		return fmt.Sprint(all, changes), err
	}
	want, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []vfs.Code{vfs.Stale, vfs.Internal, vfs.Busy} {
		refused := 0
		for n := 1; ; n++ {
			plan.Fail(faultfs.Any, faultfs.Before, n, vfs.Errorf(code, "not now"))
			got, err := ask()
			plan.Clear()
			switch {
			case err == nil && got != want:
				t.Fatalf("question %d answered %s:\n%s\nwant:\n%s", n, code, got, want)
			case err != nil && vfs.CodeOf(err) != code:
				t.Fatalf("question %d answered %s: %v", n, code, err)
			case err != nil:
				refused++
				continue
			}
			if n > 400 {
				break
			}
		}
		if refused == 0 {
			t.Errorf("nothing notices %s", code)
		}
	}
}

// TestMadeAgainBelow removes a directory of the lower tree and makes it again, while the
// overlay's is open and holds something of its own. It shows what is there.
func TestMadeAgainBelow(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "src/new", "ours")
	src, err := vfs.WalkDir(t.Context(), b.root, "src")
	b.must(err)
	defer src.Close()
	names := func() (all []string) {
		for e, err := range src.List(t.Context()) {
			b.must(err)
			all = append(all, e.Name)
		}
		return all
	}
	is := func(what string, want ...string) {
		t.Helper()
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("%s there is %q, want %q", what, got, want)
		}
	}
	is("at first", "a.go", "b.go", "new", "sub")
	b.remove(b.lower, "src")
	is("when it is gone below", "new")
	b.mkdir(b.lower, "src")
	b.put(b.lower, "src/again", "theirs")
	is("when it was made again", "again", "new")
	if got := text(t, src, "again"); got != "theirs" {
		t.Errorf("what was made there is %q", got)
	}
	if _, err := src.Lookup(t.Context(), "a.go"); vfs.CodeOf(err) != vfs.NotFound {
		t.Errorf("what was there: %v", err)
	}
}

package virtualfs_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
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
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			end := func(bool) error { s.closed = append(s.closed, "upper"); return nil }
			return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root(), Close: end}, nil
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
		{operator.Attenuation{Guards: []membrane.Guard{refuse("other")}}, vfs.Denied, vfs.AskDenied, vfs.Limit},
		{operator.Attenuation{Deny: []string{}, Guards: []membrane.Guard{refuse("secret")}}, vfs.Limit, vfs.AskDenied, ""},
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
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root()}, nil
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

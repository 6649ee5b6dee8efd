package cap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// globPage asks for one page of a search.
func globPage(t *testing.T, d *client.Dir, pattern, after string, limit uint32) (paths []string, more bool, cursor string, err error) {
	t.Helper()
	err = call(t, d.Cap(), schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
		p.SetLimit(limit)
		ok(t, p.SetAfter([]byte(after)))
		return p.SetPattern(pattern)
	}, func(r schema.Dir_glob_Results, _ *vat.Caps) error {
		more = r.More()
		c, err := r.Cursor()
		ok(t, err)
		cursor = string(c)
		l, err := r.Entries()
		for i := range l.Len() {
			name, err := l.At(i).Name()
			ok(t, err)
			paths = append(paths, name)
		}
		return err
	})
	return paths, more, cursor, err
}

func TestGlobPages(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{
		"a/1.go": {}, "a/b/2.go": {}, "a/b/c/3.go": {}, "a.go": {}, "z/4.go": {}, "z/5.md": {}, "link": {Link: "a"}, "ab/6.go": {},
	})
	want := []string{"a/1.go", "a/b/2.go", "a/b/c/3.go", "a.go", "ab/6.go", "z/4.go"}
	for limit := uint32(1); limit <= 7; limit++ {
		var got []string
		cursor, turns := "", 0
		for more := true; more; turns++ {
			var paths []string
			var err error
			paths, more, cursor, err = globPage(t, d, "**/*.go", cursor, limit)
			ok(t, err)
			got = append(got, paths...)
			if more == (cursor == "") || len(paths) > int(limit) || turns > 10 {
				t.Fatalf("limit %d: more %v, cursor %q, page %q", limit, more, cursor, paths)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, want %q", limit, got, want)
		}
	}
	var got []string
	for e, err := range d.Glob(t.Context(), "**/*.go") {
		ok(t, err)
		if got = append(got, e.Name); e.Kind != vfs.FileKind {
			t.Errorf("%s is a %v", e.Name, e.Kind)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the client finds %q, want %q", got, want)
	}
}

// Ignored and hidden names are left out where the call says so, by the rights of the caller.
func TestGlobLeaves(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{
		".gitignore": {Data: "out/\n*.log\n"}, "a.log": {}, "b": {}, "out/c": {}, "sub/.gitignore": {Data: "!keep.log\n"}, "sub/keep.log": {}, "sub/no.log": {}, ".git/x": {},
	})
	for _, c := range []struct {
		d       *client.Dir
		pattern string
		leave   []client.Leave
		want    string
	}{
		{d, "**", nil, ".git .git/x .gitignore a.log b out out/c sub sub/.gitignore sub/keep.log sub/no.log"},
		{d, "**", []client.Leave{client.LeaveIgnored}, ".gitignore b sub sub/.gitignore sub/keep.log"},
		{d, "**", []client.Leave{client.LeaveHidden}, "a.log b out out/c sub sub/keep.log sub/no.log"},
		{d, "**", []client.Leave{client.LeaveHidden, client.LeaveIgnored}, "b sub sub/keep.log"},
		{d, "out/*", []client.Leave{client.LeaveIgnored}, "out/c"},
		{d.ReadOnly(), "*.log", []client.Leave{client.LeaveIgnored}, ""},
		{d.Narrow(client.List), "*.log", []client.Leave{client.LeaveIgnored}, "a.log"},
		{d.SubDir("sub"), "*", []client.Leave{client.LeaveIgnored}, ".gitignore keep.log no.log"},
	} {
		var got []string
		for e, err := range c.d.Glob(t.Context(), c.pattern, c.leave...) {
			ok(t, err)
			got = append(got, e.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s without %v: %q, want %q", c.pattern, c.leave, got, c.want)
		}
	}
}

func TestGlobRefused(t *testing.T) {
	_, _, d := guest(t, letters("ab"))
	for _, pattern := range []string{"", "/a", "../*", "[", "{a", "a//b", strings.Repeat("{a,b}", 7), strings.Repeat("x", 5000)} {
		_, _, _, err := globPage(t, d, pattern, "", 0)
		if code := vfs.CodeOf(err); code != vfs.Invalid && code != vfs.Limit {
			t.Errorf("glob(%.20q): %v", pattern, err)
		}
	}
	for _, after := range []string{"..", "/", "\xff\x00", strings.Repeat("z/", 5000), "a/b/c"} {
		_, _, _, err := globPage(t, d, "*", after, 0)
		if code := vfs.CodeOf(err); code != "" && code != vfs.Invalid {
			t.Errorf("glob after %.20q: %v", after, err)
		}
	}
	lent, r := d.Revocable()
	ok(t, r.Revoke(t.Context()))
	_, _, _, err := globPage(t, lent, "*", "", 0)
	is(t, "glob on what was revoked", err, vfs.Revoked)
}

// A search that finds nothing still returns from time to time.
func TestGlobIsBounded(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 60_000 {
		tree[fmt.Sprintf("%05d", i)] = vfstest.Node{}
	}
	_, _, d := guest(t, tree)
	paths, more, cursor, err := globPage(t, d, "*.missing", "", 0)
	ok(t, err)
	if len(paths) != 0 || !more || cursor == "" {
		t.Errorf("a page of a long search: %q, more: %v, cursor %q", paths, more, cursor)
	}
	for e := range d.Glob(t.Context(), "*.missing") {
		t.Errorf("found %q", e.Name)
	}
}

// Each page lists the directories that its search could not look into, and the pages end.
// The client reports each such directory once, after everything that was found.
func TestGlobMissed(t *testing.T) {
	unlisted := map[string]bool{"b": true, "c/d": true, "z": true}
	tree := membrane.Guarded(scene.InMemory(t, vfstest.Tree{"a/f": {}, "b/f": {}, "c/d/f": {}, "c/f": {}, "secret/f": {}, "z/f": {}}), nil, membrane.Guard{
		Hides: membrane.MatchPaths(func(path string) bool { return path == "secret" }),
		Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if op.Kind == membrane.OpList && unlisted[op.Path] {
				return vfs.Effect{}, vfs.Errorf(vfs.Denied, "the disk says no")
			}
			return do(ctx)
		},
	})
	s := serve(t, tree, nil)
	loc, _ := s.Grant(t, "agent", "", false)
	d := scene.Dial(t, loc).Dir(t.Context())
	for _, c := range []struct {
		pattern      string
		found, wrong []string
	}{
		{"**/f", []string{"a/f", "c/f"}, []string{"denied: b: the disk says no", "denied: c/d: the disk says no", "denied: z: the disk says no"}},
		{"{b,c/d}/*", nil, []string{"denied: b: the disk says no", "denied: c/d: the disk says no"}},
		{"a/*", []string{"a/f"}, nil},
		{"secret/**", nil, nil},
	} {
		var found, wrong []string
		for e, err := range d.Glob(t.Context(), c.pattern) {
			if u, ok := errors.AsType[*client.Unlisted](err); ok {
				for _, err := range u.Errors {
					wrong = append(wrong, err.Error())
				}
				continue
			}
			ok(t, err)
			found = append(found, e.Name)
		}
		if !slices.Equal(found, c.found) || !slices.Equal(wrong, c.wrong) {
			t.Errorf("%s finds %q and misses %q, want %q and %q", c.pattern, found, wrong, c.found, c.wrong)
		}
	}
	for limit := uint32(1); limit < 9; limit++ {
		missed := map[string]int{}
		for cursor, more, pages := "", true, 0; more; pages++ {
			err := call(t, d.Cap(), schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
				p.SetLimit(limit)
				ok(t, p.SetAfter([]byte(cursor)))
				return p.SetPattern("**")
			}, func(r schema.Dir_glob_Results, _ *vat.Caps) error {
				more = r.More()
				c, err := r.Cursor()
				ok(t, err)
				cursor = string(c)
				l, err := r.Missed()
				for i := range l.Len() {
					path, _, err := wire.Missed(l.At(i))
					ok(t, err)
					missed[path]++
				}
				return err
			})
			ok(t, err)
			if pages > 20 {
				t.Fatalf("limit %d: there is no end", limit)
			}
		}
		for path := range unlisted {
			if n := missed[path]; n < 1 || n > 2 {
				t.Errorf("in pages of %d %q was missed %d times", limit, path, n)
			}
		}
		if len(missed) != len(unlisted) {
			t.Errorf("in pages of %d it missed %v", limit, missed)
		}
	}
}

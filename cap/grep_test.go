package cap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// grepped returns what a search shows: "PATH:NUMBER:TEXT", and what it missed.
func grepped(t *testing.T, d *client.Dir, g client.Grep) (shown, missed []string) {
	t.Helper()
	for f, err := range d.Grep(t.Context(), g) {
		if u, is := errors.AsType[*client.Unlisted](err); is {
			for _, err := range u.Errors {
				missed = append(missed, err.Error())
			}
			break
		}
		ok(t, err)
		for _, l := range f.Lines {
			shown = append(shown, fmt.Sprint(f.Path, ":", l.Number, ":", l.Text))
		}
	}
	return shown, missed
}

// What is withheld and what a route refuses is not searched; what cannot be read is told.
func TestGrep(t *testing.T) {
	tree := membrane.Guarded(scene.InMemory(t, vfstest.Tree{
		"a/f": {Data: "hit\n"}, "a/g": {Data: "no\n"}, "secret/f": {Data: "hit\n"}, "bad/f": {Data: "hit\n"}, "z": {Data: "caf\xe9 hit\n"},
	}), nil, membrane.Guard{
		Hides: membrane.MatchPaths(func(path string) bool { return path == "secret" }),
		Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if op.Kind == membrane.OpRead && op.Path == "bad/f" {
				return vfs.Effect{}, vfs.Errorf(vfs.Corrupt, "the disk says no")
			}
			return do(ctx)
		},
	})
	s := serve(t, tree, nil)
	loc, _ := s.Grant(t, "agent", "", false)
	d := scene.Dial(t, loc).Dir(t.Context())
	shown, missed := grepped(t, d, client.Grep{Pattern: "hit"})
	if want := []string{"a/f:1:hit", "z:1:caf\ufffd hit"}; !slices.Equal(shown, want) || !slices.Equal(missed, []string{"corrupt: bad/f: the disk says no"}) {
		t.Errorf("%q, missed %q; want %q", shown, missed, want)
	}
	if shown, _ := grepped(t, d, client.Grep{Pattern: "hit", Path: "a/f"}); !slices.Equal(shown, []string{"a/f:1:hit"}) {
		t.Errorf("of a file: %q", shown)
	}
	for _, c := range []struct {
		g    client.Grep
		want vfs.Code
	}{
		{client.Grep{Pattern: "("}, vfs.Invalid},
		{client.Grep{Pattern: strings.Repeat("x", 1025)}, vfs.Limit},
		{client.Grep{Pattern: "(a{1000}){1000}"}, vfs.Invalid},
		{client.Grep{Pattern: "x", Only: []string{"["}}, vfs.Invalid},
		{client.Grep{Pattern: "x", Path: "secret/f"}, vfs.Denied},
		{client.Grep{Pattern: "x", Path: "none"}, vfs.NotFound},
		{client.Grep{Pattern: "x", Path: "../x"}, vfs.Invalid},
	} {
		is(t, fmt.Sprintf("grep %.60v", c.g), failed(d.Grep(t.Context(), c.g)), c.want)
	}
	lent, r := d.Revocable()
	ok(t, r.Revoke(t.Context()))
	is(t, "grep on what was revoked", failed(lent.Grep(t.Context(), client.Grep{Pattern: "hit"})), vfs.Revoked)
}

// A file with many lines comes on several pages.
func TestGrepPages(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"many": {Data: strings.Repeat("a line that matches, and is a little longer than it has to be\n", 5000)}})
	shown, _ := grepped(t, d, client.Grep{Pattern: "matches"})
	if len(shown) != 5000 || shown[4999] != "many:5000:a line that matches, and is a little longer than it has to be" {
		t.Errorf("%d lines, the last %q", len(shown), shown[len(shown)-1])
	}
}

package vfs_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest"
)

// telling is a store that tells when entries are read from its directories.
type telling struct {
	vfs.Dir
	read func()
}

func (l *telling) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := l.Dir.Lookup(ctx, name)
	if d, ok := n.(vfs.Dir); ok && err == nil {
		return &telling{d, l.read}, nil
	}
	return n, err
}

func (l *telling) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for e, err := range l.Dir.List(ctx) {
			l.read()
			if ctx.Err() != nil {
				yield(vfs.Entry{}, ctx.Err())
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// The refusal to remove a directory that holds something reads no more of it than says
// whether there is something that may be seen.
func TestRemoveReadsLittle(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 50 {
		tree[fmt.Sprintf("large/%d", i)] = vfstest.Node{Data: "x"}
		tree[fmt.Sprintf("secret/%d.key", i)] = vfstest.Node{Data: "x"}
	}
	hides := vfs.Guard{Hides: vfs.MatchPaths(func(path string) bool { return strings.HasSuffix(path, ".key") })}
	for _, c := range []struct {
		what, name string
		guards     []vfs.Guard
		want       vfs.Code
		reads      int
	}{
		{"nothing is withheld", "large", nil, vfs.NotEmpty, 0},
		{"what is there may be seen", "large", []vfs.Guard{hides}, vfs.NotEmpty, 1},
		{"all is withheld", "secret", []vfs.Guard{hides}, vfs.Denied, 50},
	} {
		_, raw := store(t, tree)
		reads := 0
		ns := compose(t, map[string]vfs.Dir{"m": vfs.Guarded(&telling{raw, func() { reads++ }}, nil, c.guards...)})
		top := vfs.Guarded(ns.Root(), nil, vfs.Guard{Meter: newMeter(nil)})
		m, err := top.Lookup(t.Context(), "m")
		ok(t, err)
		is(t, c.what, m.(vfs.Dir).Remove(t.Context(), c.name, vfs.If{}), c.want)
		if reads != c.reads {
			t.Errorf("%s: %d entries were read, want %d", c.what, reads, c.reads)
		}
		ok(t, m.Close())
		ok(t, top.Close())
	}
}

// The reading ends when the right to remove goes.
func TestRemoveEndsWithItsRight(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 50 {
		tree[fmt.Sprintf("secret/%d.key", i)] = vfstest.Node{Data: "x"}
	}
	_, raw := store(t, tree)
	reads := 0
	var control *vfs.Control
	hides := vfs.Guard{Hides: vfs.MatchPaths(func(path string) bool { return strings.HasSuffix(path, ".key") })}
	d, control := controlled(t, vfs.Guarded(&telling{raw, func() {
		if reads++; reads == 10 {
			ok(t, control.Revoke())
		}
	}}, nil, hides))
	is(t, "Remove", d.Remove(t.Context(), "secret", vfs.If{}), vfs.Revoked)
	if reads > 10 {
		t.Errorf("%d entries were read after the revoke", reads-10)
	}
}

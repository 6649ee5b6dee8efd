package membrane_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// telling is a store that calls a function when entries of its directories are read.
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

// To refuse to remove a directory that is not empty, only so much of it is read as shows
// whether something in it is visible.
func TestRemoveReadsLittle(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 50 {
		tree[fmt.Sprintf("large/%d", i)] = vfstest.Node{Data: "x"}
		tree[fmt.Sprintf("secret/%d.key", i)] = vfstest.Node{Data: "x"}
	}
	hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return strings.HasSuffix(path, ".key") })}
	for _, c := range []struct {
		what, name string
		guards     []membrane.Guard
		want       vfs.Code
		reads      int
	}{
		{"nothing is withheld", "large", nil, vfs.NotEmpty, 0},
		{"what is there may be seen", "large", []membrane.Guard{hides}, vfs.NotEmpty, 1},
		{"all is withheld", "secret", []membrane.Guard{hides}, vfs.Denied, 50},
	} {
		_, raw := check.Store(t, tree)
		reads := 0
		ns := check.Compose(t, map[string]vfs.Dir{"m": membrane.Guarded(&telling{raw, func() { reads++ }}, nil, c.guards...)})
		top := membrane.Guarded(ns.Root(), nil, membrane.Guard{Meter: check.NewMeter(nil)})
		m, err := top.Lookup(t.Context(), "m")
		check.OK(t, err)
		check.Is(t, c.what, m.(vfs.Dir).Remove(t.Context(), c.name, vfs.If{}), c.want)
		if reads != c.reads {
			t.Errorf("%s: %d entries were read, want %d", c.what, reads, c.reads)
		}
		check.OK(t, m.Close())
		check.OK(t, top.Close())
	}
}

// The reading ends when the right to remove is taken back.
func TestRemoveEndsWithItsRight(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 50 {
		tree[fmt.Sprintf("secret/%d.key", i)] = vfstest.Node{Data: "x"}
	}
	_, raw := check.Store(t, tree)
	reads := 0
	var control *membrane.Control
	hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return strings.HasSuffix(path, ".key") })}
	d, control := check.Controlled(t, membrane.Guarded(&telling{raw, func() {
		if reads++; reads == 10 {
			check.OK(t, control.Revoke())
		}
	}}, nil, hides))
	check.Is(t, "Remove", d.Remove(t.Context(), "secret", vfs.If{}), vfs.Revoked)
	if reads > 10 {
		t.Errorf("%d entries were read after the revoke", reads-10)
	}
}

package vfs_test

import (
	"context"
	"iter"
	"path"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// listed is the directory at a path of a tree.
type listed struct {
	tree vfstest.Tree
	path string
}

func (l listed) Lookup(_ context.Context, name string) (vfs.Node, error) {
	at := path.Join(l.path, name)
	for p := range l.tree {
		if strings.HasPrefix(p, at+"/") {
			return vfs.NewImmutableDir(listed{l.tree, at}), nil
		}
	}
	n, ok := l.tree[at]
	switch {
	case !ok:
		return nil, vfs.NotFound
	case n.Dir:
		return vfs.NewImmutableDir(listed{l.tree, at}), nil
	}
	info := vfs.Info{Size: int64(len(n.Data)), Exec: n.Exec, ModifiedMs: 1}
	return vfs.NewImmutableFile(info, func(context.Context) (vfs.Content, error) {
		return content{strings.NewReader(n.Data)}, nil
	}), nil
}

type content struct{ *strings.Reader }

func (content) Close() error { return nil }

func (l listed) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	kinds := map[string]vfs.Kind{}
	for p := range l.tree {
		name, ok := strings.CutPrefix(p, l.path+"/")
		if l.path == "" {
			name, ok = p, true
		}
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "/")
		n, err := l.Lookup(ctx, name)
		if err != nil {
			continue
		}
		info, _ := n.Stat(ctx)
		kinds[name] = info.Kind
	}
	var all []vfs.Entry
	for name, kind := range kinds {
		all = append(all, vfs.Entry{Name: name, Kind: kind})
	}
	return vfs.Entries(all...)
}

func TestListing(t *testing.T) {
	vfstest.Run(t, vfstest.Store{Immutable: true, NoLinks: true, New: func(_ testing.TB, tree vfstest.Tree) vfs.Dir {
		return vfs.NewImmutableDir(listed{tree, ""})
	}})
}

// names is a directory that lists these names, and in which no look-up finds anything.
type names []string

func (names) Lookup(context.Context, string) (vfs.Node, error) { return nil, vfs.NotFound }

func (n names) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for _, name := range n {
			if !yield(vfs.Entry{Name: name}, nil) {
				return
			}
		}
	}
}

// A directory that lists names in another order, or none, says so: pages and searches would lack some of them.
func TestListingOutOfOrder(t *testing.T) {
	for _, bad := range []names{{"b", "a"}, {"a", "a"}, {""}, {"a", "b/c"}, {".."}} {
		var last error
		for _, last = range vfs.NewImmutableDir(bad).List(t.Context()) {
		}
		check.Is(t, strings.Join(bad, " "), last, vfs.Internal)
		if got := vfs.At("", last).Error(); strings.Contains(got, "byte order") {
			t.Errorf("a guest sees %q", got)
		}
	}
	var sorted string
	for e, err := range vfs.Entries(vfs.Entry{Name: "b"}, vfs.Entry{Name: "\xff"}, vfs.Entry{Name: "B"}, vfs.Entry{Name: "a"}) {
		check.OK(t, err)
		if sorted += e.Name; e.Name == "b" {
			break
		}
	}
	if sorted != "Bab" {
		t.Errorf("listed %q", sorted)
	}
	for _, err := range vfs.NewImmutableDir(names{"A", "B", "a", "\xff"}).List(t.Context()) {
		check.OK(t, err)
	}
}

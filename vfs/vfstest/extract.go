package vfstest

import (
	"context"
	"iter"

	"capd/vfs"
	trees "capd/vfs/change"
)

// packed is a tree that is extracted: a file is a string, and a directory is a packed.
type packed map[string]any

func (p packed) Root() vfs.Dir             { return vfs.NewImmutableDir(p) }
func (p packed) Below(name string) vfs.Dir { return vfs.NewImmutableDir(packed{name: p}) }

// Lookup implements [vfs.Listing].
func (p packed) Lookup(_ context.Context, name string) (vfs.Node, error) {
	switch n := p[name].(type) {
	case string:
		return vfs.TextFile(n), nil
	case packed:
		return n.Root(), nil
	}
	return nil, vfs.NotFound
}

// List implements [vfs.Listing].
func (p packed) List(context.Context) iter.Seq2[vfs.Entry, error] {
	var all []vfs.Entry
	for name, n := range p {
		kind := vfs.DirKind
		if _, ok := n.(string); ok {
			kind = vfs.FileKind
		}
		all = append(all, vfs.Entry{Name: name, Kind: kind})
	}
	return vfs.Entries(all...)
}

func testExtract(w *world) {
	w.make(sample)
	t := packed{"a": "text", "b": packed{"c": "", "d": packed{}}}
	done, err := trees.Extract(w.ctx, t, w.root, "d/new")
	w.ok("Extract", err)
	if done.Entries != 5 || done.Bytes != 4 {
		w.Errorf("%d entries of %d bytes were extracted", done.Entries, done.Bytes)
	}
	w.has("d/new/a", "text")
	w.has("d/new/b/c", "")
	w.dir("d/new/b/d")
	before := w.picture()
	for path, want := range map[string]vfs.Code{
		"f": vfs.Exists, "missing/new": vfs.NotFound, "f/new": vfs.NotDir, "d/..": vfs.Invalid, "/new": vfs.Invalid, "d/a\x00b": vfs.Invalid,
	} {
		w.is("Extract to "+path, second(trees.Extract(w.ctx, t, w.root, path)), want)
	}
	w.is("Extract where it is already", second(trees.Extract(w.ctx, t, w.root, "d/new")), vfs.Exists)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := trees.Extract(ctx, t, w.root, "late"); err == nil {
		w.Errorf("it is extracted after its call has ended")
	}
	w.unchanged("what is not extracted", before)
}

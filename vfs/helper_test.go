package vfs_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// store returns a tree in memory.
func store(t testing.TB, tree vfstest.Tree) (*memory.Store, vfs.Dir) {
	t.Helper()
	s := memory.New(memory.Limits{})
	fill(t, s, tree)
	return s, s.Root()
}

func fill(t testing.TB, s *memory.Store, tree vfstest.Tree) {
	t.Helper()
	ctx := context.Background()
	vfstest.Fill(t, s.Root(), tree,
		func(path, target string) error { return s.Symlink(ctx, path, target) },
		func(path string) error { return s.SetExec(ctx, path, true) })
}

// compose mounts trees at their paths.
func compose(t testing.TB, trees map[string]vfs.Dir) *vfs.Namespace {
	t.Helper()
	ns := vfs.NewNamespace()
	for path, tree := range trees {
		ok(t, ns.Mount(path, tree, vfs.MountOptions{}))
	}
	return ns
}

// sample is a small tree with something of everything.
var sample = vfstest.Tree{
	"f":       {Data: "content"},
	"a/f":     {Data: "below"},
	"a/b/f":   {Data: "further below"},
	"a/b/c/f": {Data: "at the bottom"},
	"l":       {Link: "a/f"},
	"z":       {Dir: true},
}

// guarded is a sample behind a membrane, and the control of it.
func guarded(t testing.TB, tree vfstest.Tree, guards ...vfs.Guard) (vfs.Dir, *vfs.Control, vfs.Dir) {
	t.Helper()
	_, raw := store(t, tree)
	d, c := controlled(t, vfs.Guarded(raw, nil, guards...))
	return d, c, raw
}

func controlled(t testing.TB, d vfs.Dir) (vfs.Dir, *vfs.Control) {
	t.Helper()
	r, c, err := vfs.RevocableDir(d)
	ok(t, err)
	return r, c
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// is says that err has the code want; "" is no error.
func is(t testing.TB, what string, err error, want vfs.Code) {
	t.Helper()
	if got := vfs.CodeOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

func dirAt(t testing.TB, d vfs.Dir, path string) vfs.Dir {
	t.Helper()
	n, err := vfs.WalkDir(t.Context(), d, path)
	ok(t, err)
	return n
}

func fileAt(t testing.TB, d vfs.Dir, path string) vfs.File {
	t.Helper()
	n, err := vfs.WalkFile(t.Context(), d, path)
	ok(t, err)
	return n
}

func read(t testing.TB, d vfs.Dir, path string) string {
	t.Helper()
	f := fileAt(t, d, path)
	defer f.Close()
	c, err := vfs.Open(t.Context(), f)
	ok(t, err)
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	ok(t, err)
	return string(b)
}

func put(ctx context.Context, d vfs.Dir, path, data string) error {
	_, err := vfs.Put(ctx, d, path, strings.NewReader(data), vfs.If{})
	return err
}

func names(ctx context.Context, d vfs.Dir) (all []string, err error) {
	for e, err := range d.List(ctx) {
		if err != nil {
			return all, err
		}
		all = append(all, e.Name)
	}
	return all, nil
}

// op is one operation of the waist, tried on what was opened beforehand.
type op struct {
	name    string
	changes bool
	do      func(ctx context.Context, h held) error
}

// held is a directory, and what it holds: the file f, the link l and the
// directory a with a file f.
type held struct {
	dir     vfs.Dir
	file    vfs.File
	link    vfs.Link
	content vfs.Content
}

func hold(t testing.TB, d vfs.Dir) held {
	t.Helper()
	h := held{dir: d}
	h.file = fileAt(t, d, "f")
	n, err := vfs.WalkLink(t.Context(), d, "l")
	ok(t, err)
	h.link = n.(vfs.Link)
	h.content, err = vfs.Open(t.Context(), h.file)
	ok(t, err)
	return h
}

func (h held) close() {
	h.content.Close()
	h.link.Close()
	h.file.Close()
}

// ops is every operation. Those that change make what the next ones undo.
var ops = []op{
	{"stat a directory", false, func(ctx context.Context, h held) error { _, err := h.dir.Stat(ctx); return err }},
	{"stat a file", false, func(ctx context.Context, h held) error { _, err := h.file.Stat(ctx); return err }},
	{"stat a link", false, func(ctx context.Context, h held) error { _, err := h.link.Stat(ctx); return err }},
	{"lookup", false, func(ctx context.Context, h held) error {
		n, err := h.dir.Lookup(ctx, "f")
		if err == nil {
			n.Close()
		}
		return err
	}},
	{"list", false, func(ctx context.Context, h held) error { _, err := names(ctx, h.dir); return err }},
	{"read", false, func(ctx context.Context, h held) error { _, err := h.file.ReadAt(ctx, make([]byte, 1), 0); return err }},
	{"version", false, func(ctx context.Context, h held) error { _, err := vfs.VersionOf(ctx, h.file); return err }},
	{"open", false, func(ctx context.Context, h held) error {
		c, err := vfs.Open(ctx, h.file)
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"read a content", false, func(_ context.Context, h held) error { _, err := h.content.ReadAt(make([]byte, 1), 0); return err }},
	{"target", false, func(ctx context.Context, h held) error { _, err := h.link.Target(ctx); return err }},
	{"walk", false, func(ctx context.Context, h held) error {
		n, err := vfs.Walk(ctx, h.dir, "a/f")
		if err == nil {
			n.Close()
		}
		return err
	}},
	{"write", true, func(ctx context.Context, h held) error {
		_, err := h.file.WriteAt(ctx, []byte("x"), 0, vfs.If{})
		return err
	}},
	{"append", true, func(ctx context.Context, h held) error {
		_, err := vfs.Append(ctx, h.file, []byte("x"), vfs.If{})
		return err
	}},
	{"truncate", true, func(ctx context.Context, h held) error { return h.file.Truncate(ctx, 1, vfs.If{}) }},
	{"replace a file", true, func(ctx context.Context, h held) error {
		_, err := vfs.ReplaceFile(ctx, h.file, strings.NewReader("new"), vfs.If{})
		return err
	}},
	{"replace", true, func(ctx context.Context, h held) error { return put(ctx, h.dir, "f", "new") }},
	{"put through a link", true, func(ctx context.Context, h held) error { return put(ctx, h.dir, "l", "new") }},
	{"create", true, func(ctx context.Context, h held) error {
		f, err := h.dir.Create(ctx, "fresh")
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"rename", true, func(ctx context.Context, h held) error {
		return h.dir.Rename(ctx, "fresh", h.dir, "moved", vfs.If{}, vfs.If{})
	}},
	{"remove", true, func(ctx context.Context, h held) error { return h.dir.Remove(ctx, "moved", vfs.If{}) }},
	{"mkdir", true, func(ctx context.Context, h held) error {
		d, err := h.dir.Mkdir(ctx, "fresh")
		if err == nil {
			d.Close()
		}
		return err
	}},
	{"rmdir", true, func(ctx context.Context, h held) error { return h.dir.Remove(ctx, "fresh", vfs.If{}) }},
}

// tryAll says what every operation answers: reads the code that looking gives,
// changes the code that changing gives.
func tryAll(t testing.TB, what string, h held, reads, changes vfs.Code) {
	t.Helper()
	for _, o := range ops {
		want := reads
		if o.changes {
			want = changes
		}
		is(t, what+": "+o.name, o.do(t.Context(), h), want)
	}
}

func newMeter(l meter.Limits) *meter.Meter { return meter.New("test", "this grant", l) }

type usage struct{ Bytes, Nodes, Open, Streams int64 }

func usageOf(m *meter.Meter) usage {
	return usage{m.Used(meter.StoredBytes), m.Used(meter.StoredNodes), m.Used(meter.Nodes), m.Used(meter.Streams)}
}

// findIn searches the tree below d for p, from the path after on.
func findIn(ctx context.Context, d vfs.Dir, p *vfs.Pattern, after string, visit func(path string, kind vfs.Kind, hit bool, work int) bool) error {
	return vfs.Search{Pattern: p, After: after, Visit: visit}.In(ctx, d)
}

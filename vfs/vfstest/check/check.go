// Package check has what the tests of vfs, of the membrane, of namespaces and of the
// search have in common: trees in memory, every operation of the waist in a table, and
// assertions on codes.
package check

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/search"
	"capd/vfs/vfstest"
)

// Store returns a tree in memory.
func Store(t testing.TB, tree vfstest.Tree) (*memory.Store, vfs.Dir) {
	t.Helper()
	s := memory.New(memory.Limits{})
	Fill(t, s, tree)
	return s, s.Root()
}

// Fill puts tree into s.
func Fill(t testing.TB, s *memory.Store, tree vfstest.Tree) {
	t.Helper()
	vfstest.Fill(t, s.Root(), tree,
		func(path, target string) error { return s.Symlink(context.Background(), path, target) },
		vfstest.SetExec(s.Root()))
}

// Compose mounts trees at their paths.
func Compose(t testing.TB, trees map[string]vfs.Dir) *namespace.Namespace {
	t.Helper()
	ns := namespace.New()
	for path, tree := range trees {
		OK(t, ns.Mount(path, tree, namespace.Options{}))
	}
	return ns
}

// Sample is a small tree with something of everything.
var Sample = vfstest.Tree{
	"f":       {Data: "content"},
	"a/f":     {Data: "below"},
	"a/b/f":   {Data: "further below"},
	"a/b/c/f": {Data: "at the bottom"},
	"l":       {Link: "a/f"},
	"z":       {Dir: true},
}

// Guarded returns a tree behind a membrane, its control, and the tree without the
// membrane.
func Guarded(t testing.TB, tree vfstest.Tree, guards ...membrane.Guard) (vfs.Dir, *membrane.Control, vfs.Dir) {
	t.Helper()
	_, raw := Store(t, tree)
	d, c := Controlled(t, membrane.Guarded(raw, nil, guards...))
	return d, c, raw
}

// Controlled returns d behind a gate of its own, and the control of that gate.
func Controlled(t testing.TB, d vfs.Dir) (vfs.Dir, *membrane.Control) {
	t.Helper()
	r, c, err := membrane.RevocableDir(d)
	OK(t, err)
	return r, c
}

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// Is fails the test unless err has the code want; "" means no error. what begins the
// message.
func Is(t testing.TB, what string, err error, want vfs.Code) {
	t.Helper()
	if got := vfs.CodeOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

// Eventually waits until cond holds. It ends the test if that takes more than 10 s. what
// names the condition.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// DirAt opens a directory.
func DirAt(t testing.TB, d vfs.Dir, path string) vfs.Dir {
	t.Helper()
	n, err := vfs.WalkDir(t.Context(), d, path)
	OK(t, err)
	return n
}

// FileAt opens a file.
func FileAt(t testing.TB, d vfs.Dir, path string) vfs.File {
	t.Helper()
	n, err := vfs.WalkFile(t.Context(), d, path)
	OK(t, err)
	return n
}

// Read returns the content of the file at path.
func Read(t testing.TB, d vfs.Dir, path string) string {
	t.Helper()
	f := FileAt(t, d, path)
	defer f.Close()
	c, err := vfs.Open(t.Context(), f)
	OK(t, err)
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	OK(t, err)
	return string(b)
}

// Put makes data the content of the file at path below d.
func Put(ctx context.Context, d vfs.Dir, path, data string) error {
	_, err := vfs.Put(ctx, d, path, strings.NewReader(data), vfs.If{})
	return err
}

// Names returns what List yields.
func Names(ctx context.Context, d vfs.Dir) (all []string, err error) {
	for e, err := range d.List(ctx) {
		if err != nil {
			return all, err
		}
		all = append(all, e.Name)
	}
	return all, nil
}

// Op is one operation of the waist, tried on what was opened beforehand.
type Op struct {
	Name    string
	Changes bool
	Do      func(ctx context.Context, h Held) error
}

// Held is a directory, and what it holds: the file f, the link l and the
// directory a with a file f.
type Held struct {
	Dir     vfs.Dir
	File    vfs.File
	Link    vfs.Link
	Content vfs.Content
}

// Hold opens a [Held] in d, which has the nodes of [Sample].
func Hold(t testing.TB, d vfs.Dir) Held {
	t.Helper()
	h := Held{Dir: d}
	h.File = FileAt(t, d, "f")
	n, err := vfs.WalkLink(t.Context(), d, "l")
	OK(t, err)
	h.Link = n.(vfs.Link)
	h.Content, err = vfs.Open(t.Context(), h.File)
	OK(t, err)
	return h
}

func (h Held) Close() {
	h.Content.Close()
	h.Link.Close()
	h.File.Close()
}

// Ops lists every operation. They are run in order: what one creates, a later one removes.
var Ops = []Op{
	{"stat a directory", false, func(ctx context.Context, h Held) error { _, err := h.Dir.Stat(ctx); return err }},
	{"stat a file", false, func(ctx context.Context, h Held) error { _, err := h.File.Stat(ctx); return err }},
	{"stat a link", false, func(ctx context.Context, h Held) error { _, err := h.Link.Stat(ctx); return err }},
	{"lookup", false, func(ctx context.Context, h Held) error {
		n, err := h.Dir.Lookup(ctx, "f")
		if err == nil {
			n.Close()
		}
		return err
	}},
	{"list", false, func(ctx context.Context, h Held) error { _, err := Names(ctx, h.Dir); return err }},
	{"read", false, func(ctx context.Context, h Held) error { _, err := h.File.ReadAt(ctx, make([]byte, 1), 0); return err }},
	{"version", false, func(ctx context.Context, h Held) error { _, err := vfs.VersionOf(ctx, h.File); return err }},
	{"open", false, func(ctx context.Context, h Held) error {
		c, err := vfs.Open(ctx, h.File)
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"read a content", false, func(_ context.Context, h Held) error { _, err := h.Content.ReadAt(make([]byte, 1), 0); return err }},
	{"target", false, func(ctx context.Context, h Held) error { _, err := h.Link.Target(ctx); return err }},
	{"walk", false, func(ctx context.Context, h Held) error {
		n, err := vfs.Walk(ctx, h.Dir, "a/f")
		if err == nil {
			n.Close()
		}
		return err
	}},
	{"write", true, func(ctx context.Context, h Held) error {
		_, err := h.File.WriteAt(ctx, []byte("x"), 0, vfs.If{})
		return err
	}},
	{"append", true, func(ctx context.Context, h Held) error {
		_, err := vfs.Append(ctx, h.File, []byte("x"), vfs.If{})
		return err
	}},
	{"truncate", true, func(ctx context.Context, h Held) error { return h.File.Truncate(ctx, 1, vfs.If{}) }},
	{"set attributes", true, func(ctx context.Context, h Held) error {
		return vfs.SetAttributes(ctx, h.File, vfs.Attributes{Exec: new(true)}, vfs.If{})
	}},
	{"replace a file", true, func(ctx context.Context, h Held) error {
		_, err := h.File.Replace(ctx, strings.NewReader("new"), vfs.If{})
		return err
	}},
	{"replace", true, func(ctx context.Context, h Held) error { return Put(ctx, h.Dir, "f", "new") }},
	{"put through a link", true, func(ctx context.Context, h Held) error { return Put(ctx, h.Dir, "l", "new") }},
	{"create", true, func(ctx context.Context, h Held) error {
		f, err := h.Dir.Create(ctx, "fresh")
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"rename", true, func(ctx context.Context, h Held) error {
		return h.Dir.Rename(ctx, "fresh", h.Dir, "moved", vfs.If{}, vfs.If{})
	}},
	{"remove", true, func(ctx context.Context, h Held) error { return h.Dir.Remove(ctx, "moved", vfs.If{}) }},
	{"mkdir", true, func(ctx context.Context, h Held) error {
		d, err := h.Dir.Mkdir(ctx, "fresh")
		if err == nil {
			d.Close()
		}
		return err
	}},
	{"rmdir", true, func(ctx context.Context, h Held) error { return h.Dir.Remove(ctx, "fresh", vfs.If{}) }},
}

// TryAll runs every operation of [Ops] on h and checks what it answers. An operation that
// reads must answer reads, and one that changes must answer changes; "" means no error.
func TryAll(t testing.TB, what string, h Held, reads, changes vfs.Code) {
	t.Helper()
	for _, o := range Ops {
		want := reads
		if o.Changes {
			want = changes
		}
		Is(t, what+": "+o.Name, o.Do(t.Context(), h), want)
	}
}

// NewMeter returns a meter with the limits l.
func NewMeter(l meter.Limits) *meter.Meter { return meter.New("test", "this grant", l) }

// Usage is what a meter counts.
type Usage struct{ Bytes, Nodes, Open, Streams int64 }

// UsageOf returns what m counts now.
func UsageOf(m *meter.Meter) Usage {
	return Usage{m.Used(meter.StoredBytes), m.Used(meter.StoredNodes), m.Used(meter.Nodes), m.Used(meter.Streams)}
}

// Find searches the tree below d for p, from the path after on.
func Find(ctx context.Context, d vfs.Dir, p *search.Pattern, after string, visit func(path string, kind vfs.Kind, hit bool, work int) bool) error {
	return search.Search{Pattern: p, After: after, Visit: visit}.In(ctx, d)
}

// Picture returns the tree as text, without times.
func Picture(t testing.TB, d vfs.Dir) string {
	t.Helper()
	var b strings.Builder
	all, err := search.Compile("**")
	OK(t, err)
	OK(t, Find(t.Context(), d, all, "", func(path string, kind vfs.Kind, _ bool, _ int) bool {
		fmt.Fprint(&b, path, " ", kind)
		if kind == vfs.FileKind {
			fmt.Fprintf(&b, " %q", Read(t, d, path))
		}
		fmt.Fprintln(&b)
		return true
	}))
	return b.String()
}

// Hits returns the matching paths that [Find] visits after the path after.
func Hits(t testing.TB, d vfs.Dir, pattern, after string) (all []string) {
	t.Helper()
	p, err := search.Compile(pattern)
	OK(t, err)
	OK(t, Find(t.Context(), d, p, after, func(path string, _ vfs.Kind, hit bool, _ int) bool {
		if hit {
			all = append(all, path)
		}
		return true
	}))
	return all
}

// Naive finds what [Hits] should find. It walks the whole tree and matches whole paths.
func Naive(t testing.TB, d vfs.Dir, pattern string) (all []string) {
	t.Helper()
	p, err := search.Compile(pattern)
	OK(t, err)
	var walk func(d vfs.Dir, path string)
	walk = func(d vfs.Dir, path string) {
		for e, err := range d.List(t.Context()) {
			OK(t, err)
			at := vfs.Join(path, e.Name)
			if p.Match(at) {
				all = append(all, at)
			}
			if e.Kind == vfs.DirKind {
				n, err := d.Lookup(t.Context(), e.Name)
				OK(t, err)
				walk(n.(vfs.Dir), at)
			}
		}
	}
	walk(d, "")
	return all
}

// Mount mounts a tree in memory at path.
func Mount(t testing.TB, ns *namespace.Namespace, path string, tree vfstest.Tree) {
	t.Helper()
	_, d := Store(t, tree)
	OK(t, ns.Mount(path, d, namespace.Options{}))
}

// Asking is a reader that waits for Ask before it reads Data.
type Asking struct {
	Ask  chan struct{}
	Data *strings.Reader
}

func (a *Asking) Read(p []byte) (int, error) {
	<-a.Ask
	return a.Data.Read(p)
}

// Metered returns [Sample] behind a meter with the limits a, that meter, a plan of faults,
// and the store itself.
func Metered(t testing.TB, a meter.Limits) (vfs.Dir, *meter.Meter, *faultfs.Plan, vfs.Dir) {
	t.Helper()
	l := NewMeter(a)
	_, raw := Store(t, Sample)
	plan := &faultfs.Plan{}
	return membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Meter: l}), l, plan, raw
}

// Policies returns guards that match nothing in the trees of the suite.
func Policies() []membrane.Guard {
	return []membrane.Guard{
		deny.Must("**/.ssh/**", "**/*.pem").Guard(),
		deny.Must("**/.git/hooks/**").Ask("it"),
		{Meter: NewMeter(meter.Limits{meter.StoredBytes: 1 << 40, meter.StoredNodes: 1 << 20, meter.Nodes: 1 << 20})},
		{Around: func(ctx context.Context, _ membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			return do(ctx)
		}},
	}
}

// Do is the operation that a guard runs.
type Do = func(context.Context) (vfs.Effect, error)

// Around returns a guard that runs f around every operation.
func Around(f func(ctx context.Context, op membrane.Op, do Do) (vfs.Effect, error)) membrane.Guard {
	return membrane.Guard{Around: f}
}

// Child returns the control of the path of names below c. It releases the controls on the way.
func Child(t testing.TB, c *membrane.Control, names ...string) *membrane.Control {
	t.Helper()
	for i, name := range names {
		next, err := c.Child(t.Context(), name)
		OK(t, err)
		if i > 0 {
			c.Release()
		}
		c = next
	}
	return c
}

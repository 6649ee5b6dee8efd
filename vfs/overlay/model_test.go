package overlay_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// picture is a whole tree: everything visible of each path, including times.
func picture(t testing.TB, d vfs.Dir) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := draw(t.Context(), d, "", all); err != nil {
		t.Fatal(err)
	}
	return all
}

func draw(ctx context.Context, d vfs.Dir, path string, all map[string]string) error {
	info, err := d.Stat(ctx)
	if err != nil {
		return fmt.Errorf("Stat of %q: %w", path, err)
	}
	all[path+"/"] = fmt.Sprintf("%+v", info)
	for e, err := range d.List(ctx) {
		if err != nil {
			return fmt.Errorf("List of %q: %w", path, err)
		}
		at := vfs.Join(path, e.Name)
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			return fmt.Errorf("Lookup of %q: %w", at, err)
		}
		if vfs.KindOf(n) != e.Kind {
			return vfs.Errorf(vfs.Stale, "%q is a %v to List and a %T", at, e.Kind, n)
		}
		if below, ok := n.(vfs.Dir); ok {
			err = draw(ctx, below, at, all)
		} else {
			all[at], err = portrait(ctx, n)
		}
		n.Close()
		if err != nil {
			return fmt.Errorf("%q: %w", at, err)
		}
	}
	return nil
}

func portrait(ctx context.Context, n vfs.Node) (string, error) {
	info, err := n.Stat(ctx)
	if err != nil {
		return "", err
	}
	text := ""
	switch n := n.(type) {
	case vfs.Link:
		text, err = n.Target(ctx)
	case vfs.File:
		text, err = contentOf(ctx, n)
	}
	info.Links = 0 // not every store says
	return fmt.Sprintf("%+v %q", info, text), err
}

func contentOf(ctx context.Context, f vfs.File) (string, error) {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	return string(b), err
}

// differ names paths at which two pictures differ.
func differ(want, got map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			fmt.Fprintf(&b, "\n%q: want %s, got %s", path, want[path], got[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[path]; !ok {
			fmt.Fprintf(&b, "\n%q: got %s, want nothing", path, got[path])
		}
	}
	return b.String()
}

// world is an overlay and a plain store that should be the same.
type world struct {
	t      *testing.T
	lower  *memory.Store
	upper  *memory.Store
	o      *overlay.Overlay
	plain  *memory.Store
	random *rand.Rand
}

var modelTree = vfstest.Tree{
	"a": {Data: "content of a"}, "b": {Data: "content of b", Exec: true}, "c/a": {Data: "c's a"}, "c/b/a": {Data: "deep"},
	"c/b/c/a": {Data: "deeper"}, "c/c": {Link: "a"}, "d/a": {Data: ""}, "d/b": {Dir: true}, "e": {Link: "c/b"},
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, lower: memory.New(memory.Limits{}), upper: memory.New(memory.Limits{}), plain: memory.New(memory.Limits{}),
		random: rand.New(rand.NewPCG(seed, 3))}
	for _, s := range []*memory.Store{w.lower, w.plain} {
		vfstest.Fill(t, s.Root(), modelTree,
			vfstest.Symlink(s.Root()),
			vfstest.SetExec(s.Root()))
	}
	w.reopen()
	return w
}

func (w *world) reopen() { w.o = laid(w.t, w.lower.Root(), w.upper.Root()) }

func (w *world) name() string { return string(rune('a' + w.random.IntN(5))) }

// dirPath returns the path of a directory, in most cases.
func (w *world) dirPath() string {
	var dirs []string
	for path := range picture(w.t, w.plain.Root()) {
		if dir, ok := strings.CutSuffix(path, "/"); ok {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	path := dirs[w.random.IntN(len(dirs))]
	if w.random.IntN(10) == 0 {
		path = vfs.Join(path, w.name())
	}
	return path
}

// op is one operation on a tree, by its root.
type op struct {
	what string
	do   func(ctx context.Context, root vfs.Dir, s *memory.Store) (string, error)
}

func dirAt(ctx context.Context, root vfs.Dir, path string) (vfs.Dir, error) {
	if path == "" {
		return root, nil
	}
	var at vfs.Node = root
	for name := range strings.SplitSeq(path, "/") {
		d, ok := at.(vfs.Dir)
		if !ok {
			return nil, vfs.NotDir
		}
		n, err := d.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		at = n
	}
	d, ok := at.(vfs.Dir)
	if !ok {
		return nil, vfs.NotDir
	}
	return d, nil
}

// inDir is an operation on a directory.
func inDir(what, path string, do func(ctx context.Context, d vfs.Dir) error) op {
	return op{what + " in " + path, func(ctx context.Context, root vfs.Dir, _ *memory.Store) (string, error) {
		d, err := dirAt(ctx, root, path)
		if err != nil {
			return "", err
		}
		return "", do(ctx, d)
	}}
}

// onFile is an operation on a file.
func onFile(what, path, name string, do func(ctx context.Context, f vfs.File) (string, error)) op {
	return op{what + " " + vfs.Join(path, name), func(ctx context.Context, root vfs.Dir, _ *memory.Store) (string, error) {
		d, err := dirAt(ctx, root, path)
		if err != nil {
			return "", err
		}
		n, err := d.Lookup(ctx, name)
		if err != nil {
			return "", err
		}
		defer n.Close()
		f, ok := n.(vfs.File)
		if !ok {
			return "", vfs.NotRegular
		}
		return do(ctx, f)
	}}
}

// next returns a random operation.
func (w *world) next() op {
	path, name := w.dirPath(), w.name()
	data := strings.Repeat(w.name(), w.random.IntN(30))
	off := int64(w.random.IntN(20))
	c := vfs.If{}
	switch w.random.IntN(8) {
	case 0:
		c.Absent = true
	case 1:
		if d, err := dirAt(w.t.Context(), w.plain.Root(), path); err == nil {
			if n, err := d.Lookup(w.t.Context(), w.name()); err == nil {
				if f, ok := n.(vfs.File); ok {
					c.Is, _ = vfs.VersionOf(w.t.Context(), f)
				}
			}
		}
	}
	switch w.random.IntN(11) {
	case 0:
		return inDir("Create "+name, path, func(ctx context.Context, d vfs.Dir) error { _, err := d.Create(ctx, name); return err })
	case 1:
		return inDir("Mkdir "+name, path, func(ctx context.Context, d vfs.Dir) error { _, err := d.Mkdir(ctx, name); return err })
	case 2:
		return op{"Symlink " + path + " " + name, func(ctx context.Context, root vfs.Dir, s *memory.Store) (string, error) {
			d, err := dirAt(ctx, root, path)
			if err != nil {
				return "", err
			}
			if s != nil {
				return "", vfstest.Symlink(s.Root())(vfs.Join(path, name), "to/"+name)
			}
			return "", vfs.Symlink(ctx, d, name, "to/"+name)
		}}
	case 3, 4:
		return inDir(fmt.Sprintf("Remove %s %v", name, c), path, func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, name, c) })
	case 5, 6, 7:
		to, newName := w.dirPath(), w.name()
		return op{fmt.Sprintf("Rename %s/%s to %s/%s %v", path, name, to, newName, c), func(ctx context.Context, root vfs.Dir, _ *memory.Store) (string, error) {
			d, err := dirAt(ctx, root, path)
			if err != nil {
				return "", err
			}
			dst, err := dirAt(ctx, root, to)
			if err != nil {
				return "", err
			}
			return "", d.Rename(ctx, name, dst, newName, vfs.If{}, c)
		}}
	case 8:
		return inDir(fmt.Sprintf("Replace %s %v", name, c), path, func(ctx context.Context, d vfs.Dir) error {
			_, err := d.Replace(ctx, name, strings.NewReader(data), c)
			return err
		})
	case 9:
		return onFile(fmt.Sprintf("WriteAt %d %v", off, c), path, name, func(ctx context.Context, f vfs.File) (string, error) {
			n, err := f.WriteAt(ctx, []byte(data), off, c)
			return fmt.Sprint(n), err
		})
	}
	return onFile(fmt.Sprintf("Truncate %d %v", off, c), path, name, func(ctx context.Context, f vfs.File) (string, error) {
		return "", f.Truncate(ctx, off, c)
	})
}

// make makes one operation on both and compares.
func (w *world) make(what op) {
	w.t.Helper()
	time.Sleep(time.Second)
	wantAnswer, want := what.do(w.t.Context(), w.plain.Root(), w.plain)
	answer, err := what.do(w.t.Context(), w.o.Root(), nil)
	if vfs.CodeOf(err) != vfs.CodeOf(want) || answer != wantAnswer {
		w.t.Fatalf("%s: %q, %v, want %q, %v", what.what, answer, err, wantAnswer, want)
	}
	if d := differ(picture(w.t, w.plain.Root()), picture(w.t, w.o.Root())); d != "" {
		w.t.Fatalf("after %s: %s", what.what, d)
	}
	counted(w.t, w.o)
}

// TestModel makes the same operations on an overlay and on a plain store. They give the
// same answers and hold the same, including times.
func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				lower := picture(t, w.lower.Root())
				var done []string
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(done, "\n"))
					}
				}()
				for i := range 150 {
					what := w.next()
					done = append(done, what.what)
					w.make(what)
					if i%5 == 4 {
						w.reopen()
						if d := differ(picture(t, w.plain.Root()), picture(t, w.o.Root())); d != "" {
							t.Fatalf("opened again: %s", d)
						}
					}
				}
				if d := differ(lower, picture(t, w.lower.Root())); d != "" {
					t.Fatalf("the lower tree changed: %s", d)
				}
			})
		})
	}
}

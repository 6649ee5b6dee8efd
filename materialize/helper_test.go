package materialize_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var ok, is = check.OK, check.Is

// tree is what a Dir or a directory of the host holds: paths to "dir", "link:" and
// a target, "file:" and a content, or "exec:" and the content of an executable
// file.
type tree map[string]string

func (tr tree) with(more tree) tree {
	out := maps.Clone(tr)
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_, node string) bool { return node == "" })
	return out
}

// newStore is a store in memory that holds tr.
func newStore(t testing.TB, tr tree) *memory.Store {
	t.Helper()
	s := memory.New(memory.Limits{})
	d := s.Root()
	for _, path := range slices.Sorted(maps.Keys(tr)) {
		kind, data, _ := strings.Cut(tr[path], ":")
		var err error
		switch kind {
		case "dir":
			in, name, release, failed := vfs.WalkParent(context.Background(), d, path)
			ok(t, failed)
			_, err = in.Mkdir(context.Background(), name)
			release()
		case "link":
			err = vfstest.Symlink(s.Root())(path, data)
		default:
			_, err = vfs.Put(context.Background(), d, path, strings.NewReader(data), vfs.If{})
			if err == nil && kind == "exec" {
				err = vfstest.SetExec(s.Root())(path)
			}
		}
		ok(t, err)
	}
	return s
}

// read returns all that d holds.
func read(t testing.TB, d vfs.Dir) tree {
	t.Helper()
	out := tree{}
	fsys := vfs.FS(context.Background(), d)
	ok(t, fs.WalkDir(fsys, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		switch {
		case e.IsDir():
			out[path] = "dir"
		case e.Type()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(fsys, path)
			out[path] = "link:" + target
			return err
		default:
			data, err := fs.ReadFile(fsys, path)
			if err != nil {
				return err
			}
			info, err := e.Info()
			out[path] = "file:" + string(data)
			if err == nil && info.Mode()&0o100 != 0 {
				out[path] = "exec:" + string(data)
			}
			return err
		}
		return nil
	}))
	return out
}

func holds(t testing.TB, d vfs.Dir, want tree) {
	t.Helper()
	if got := read(t, d); !maps.Equal(got, want) {
		t.Errorf("the Dir holds\n%v\nwant\n%v", got, want)
	}
}

// readHost returns all that the directory of the host holds.
func readHost(t testing.TB, dir string) tree {
	t.Helper()
	out := tree{}
	ok(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch e.Type() {
		case fs.ModeDir:
			out[rel] = "dir"
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			out[rel] = "link:" + target
			return err
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := e.Info()
			out[rel] = "file:" + string(data)
			if err == nil && info.Mode().Perm() == 0o700 {
				out[rel] = "exec:" + string(data)
			} else if err == nil && info.Mode().Perm() != 0o600 {
				out[rel] = info.Mode().String()
			}
			return err
		}
		return nil
	}))
	return out
}

// work is a materialized store: the store, what it was materialized through, and
// the tree.
type work struct {
	store   *memory.Store
	journal vfs.Dir
	base    string
	tree    *materialize.Tree
	dir     string // Tree.Path
}

func newBase(t testing.TB, dir string) *materialize.Base {
	t.Helper()
	b, err := materialize.OpenAmbient(dir)
	ok(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// start materializes tr.
func start(t testing.TB, tr tree, o materialize.Options, guards ...membrane.Guard) *work {
	t.Helper()
	w := &work{store: newStore(t, tr), journal: memory.New(memory.Limits{}).Root(), base: filepath.Join(t.TempDir(), "base")}
	var err error
	w.tree, err = newBase(t, w.base).New(t.Context(), membrane.Guarded(w.store.Root(), nil, guards...), o)
	ok(t, err)
	t.Cleanup(func() { ok(t, w.tree.Close()) })
	w.dir = w.tree.Path()
	return w
}

func (w *work) at(path string) string { return filepath.Join(w.dir, path) }

// write writes a file of the tree, as a program in it would.
func (w *work) write(t testing.TB, path, data string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(w.at(path)), 0o755))
	ok(t, os.WriteFile(w.at(path), []byte(data), 0o644))
}

func (w *work) sync(t testing.TB) materialize.Report {
	t.Helper()
	r, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	ok(t, err)
	return r
}

// holds says what the store holds, and that the journal has forgotten all.
func (w *work) holds(t testing.TB, want tree) {
	t.Helper()
	holds(t, w.store.Root(), want)
	if got := read(t, w.journal); len(got) > 0 {
		t.Errorf("the journal holds %v", got)
	}
}

// skipped says what was left out.
func skipped(t testing.TB, got []diff.Skipped, paths ...string) {
	t.Helper()
	var have []string
	for _, s := range got {
		have = append(have, s.Path)
		if s.Why == "" {
			t.Errorf("%s is left out and nobody knows why", s.Path)
		}
	}
	if !slices.Equal(have, paths) {
		t.Errorf("left out are %q, want %q: %v", have, paths, got)
	}
}

func conflicts(t testing.TB, err error, paths ...string) {
	t.Helper()
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok {
		t.Fatalf("%v, want conflicts", err)
	}
	var got []string
	for _, p := range c.Paths {
		got = append(got, p.Path)
	}
	if !slices.Equal(got, paths) {
		t.Errorf("conflicts at %q, want %q", got, paths)
	}
}

func put(t testing.TB, d vfs.Dir, name, data string) {
	t.Helper()
	_, err := d.Replace(t.Context(), name, strings.NewReader(data), vfs.If{})
	ok(t, err)
}

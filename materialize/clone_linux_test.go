package materialize_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// shared is a Dir whose files can be cloned; here a clone is a copy.
type shared struct {
	vfs.Dir
	cloned *atomic.Int64
}

func (d shared) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	switch n := n.(type) {
	case vfs.Dir:
		return shared{n, d.cloned}, err
	case vfs.File:
		return sharedFile{n, d.cloned}, err
	}
	return n, err
}

type sharedFile struct {
	vfs.File
	cloned *atomic.Int64
}

func (f sharedFile) Open(ctx context.Context) (vfs.Content, error) {
	c, err := vfs.Open(ctx, f.File)
	return sharedContent{c, f.cloned}, err
}

type sharedContent struct {
	vfs.Content
	cloned *atomic.Int64
}

func (c sharedContent) Clone(fd uintptr) error {
	if c.Size() == 13 { // as a file on another file system
		return vfs.Unsupported
	}
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return err
	}
	c.cloned.Add(1)
	if len(b) == 0 {
		return nil
	}
	_, err = syscall.Pwrite(int(fd), b, 0)
	return err
}

// A content that can be cloned is cloned, and has a version like any other. One that
// cannot is copied.
func TestClones(t *testing.T) {
	store := memory.New(memory.Limits{})
	want := map[string]string{"a": "", "b": "hello", "c": strings.Repeat("x", 300<<10), "d": strings.Repeat("y", 13)}
	for name, text := range want {
		if _, err := store.Root().Replace(t.Context(), name, strings.NewReader(text), vfs.If{}); err != nil {
			t.Fatal(err)
		}
	}
	base, err := materialize.OpenAmbient(filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	var cloned atomic.Int64
	from := membrane.Guarded(shared{store.Root(), &cloned}, nil)
	tree, err := base.New(t.Context(), from, materialize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if cloned.Load() != 3 {
		t.Errorf("%d files were cloned, want 3", cloned.Load())
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(tree.Path(), name)); err != nil || string(got) != text {
			t.Errorf("%s has %d bytes, %v; want %d", name, len(got), err, len(text))
		}
	}
	if err := os.WriteFile(filepath.Join(tree.Path(), "c"), []byte("z"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := tree.Changes(t.Context())
	if err != nil || len(c.List) != 1 || c.List[0].Was != (diff.State{Kind: vfs.FileKind, Version: versionOf(t, store.Root(), "c")}) {
		t.Errorf("the changes are %+v, %v", c.List, err)
	}

	_, err = base.New(t.Context(), from, materialize.Options{Bounds: materialize.Bounds{Bytes: 1000}})
	if vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("clones beyond the bounds: %v, want limit", err)
	}
}

func versionOf(t *testing.T, d vfs.Dir, name string) vfs.Version {
	t.Helper()
	n, err := d.Lookup(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vfs.VersionOf(t.Context(), n.(vfs.File))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// On a real file system, with or without reflinks.
func TestClonesPhysical(t *testing.T) {
	dir := t.TempDir()
	served, text := filepath.Join(dir, "served"), strings.Repeat("a line\n", 100_000)
	if err := os.Mkdir(served, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(served, "f"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := physical.OpenAmbient(served, physical.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	base, err := materialize.OpenAmbient(filepath.Join(dir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	tree, err := base.New(t.Context(), membrane.Guarded(store.Root(), nil), materialize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := os.WriteFile(filepath.Join(tree.Path(), "f"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(served, "f")); err != nil || string(got) != text {
		t.Errorf("a write to the copy changed the original: %d bytes, %v", len(got), err)
	}
}

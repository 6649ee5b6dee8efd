package cas_test

import (
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// source returns a tree in memory, to be put.
func source(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	m := memory.New(memory.Limits{Bytes: 1 << 30})
	vfstest.Fill(t, m.Root(), tree,
		vfstest.Symlink(m.Root()),
		vfstest.SetExec(m.Root()))
	return m.Root()
}

func openStore(t testing.TB) (*cas.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	leavesNothingOpen(t, dir)
	return reopen(t, dir), dir
}

func reopen(t testing.TB, dir string) *cas.Store {
	t.Helper()
	s, err := cas.OpenAmbient(dir, cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores tree and pins it as "t".
func put(t testing.TB, s *cas.Store, tree vfstest.Tree) cas.Digest {
	t.Helper()
	root, err := cas.Put(t.Context(), s, source(t, tree), cas.PutOptions{Pin: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func open(t testing.TB, b cas.Blobs, root cas.Digest) vfs.Dir {
	t.Helper()
	d, err := cas.Open(t.Context(), b, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Abilities that only some stores have answer readOnly too, and not unsupported.
func TestNothingChanges(t *testing.T) {
	s, _ := openStore(t)
	root := put(t, s, sample)
	d := open(t, s, root)
	is(t, "Symlink", vfs.Symlink(t.Context(), d, "new", "target"), vfs.ReadOnly)
	_, err := vfs.Install(t.Context(), d, "new", strings.NewReader("x"), true, vfs.If{})
	is(t, "Install", err, vfs.ReadOnly)
	n, err := d.Lookup(t.Context(), "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, err = vfs.Append(t.Context(), n.(vfs.File), []byte("x"), vfs.If{})
	is(t, "Append", err, vfs.ReadOnly)
	_, err = n.(vfs.File).Replace(t.Context(), strings.NewReader("x"), vfs.If{})
	is(t, "ReplaceFile", err, vfs.ReadOnly)
	if info, err := n.Stat(t.Context()); err != nil || info.ModifiedMs != 0 {
		t.Errorf("Stat = %+v, %v; a tree keeps no times", info, err)
	}
}

func TestSuite(t *testing.T) {
	vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		s := reopen(t, filepath.Join(t.TempDir(), "store"))
		return open(t, s, put(t, s, tree))
	}})
}

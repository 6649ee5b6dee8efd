package git_test

import (
	"slices"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// fixture is a bare repository, to which tests write objects directly.
type fixture struct {
	testing.TB
	dir  string
	repo *gogit.Repository
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir := t.TempDir()
	repo, err := gogit.PlainInit(dir, true)
	check.OK(t, err)
	return &fixture{t, dir, repo}
}

// object writes an object without checking it.
func (f *fixture) object(kind plumbing.ObjectType, data string) plumbing.Hash {
	f.Helper()
	o := f.repo.Storer.NewEncodedObject()
	o.SetType(kind)
	w, err := o.Writer()
	check.OK(f, err)
	_, err = w.Write([]byte(data))
	check.OK(f, err)
	check.OK(f, w.Close())
	id, err := f.repo.Storer.SetEncodedObject(o)
	check.OK(f, err)
	return id
}

func (f *fixture) blob(data string) plumbing.Hash { return f.object(plumbing.BlobObject, data) }

// tree writes a tree of entries in git's order, without checking them.
func (f *fixture) tree(entries ...object.TreeEntry) plumbing.Hash {
	f.Helper()
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return f.rawTree(entries...)
}

// rawTree writes a tree of entries in the order given.
func (f *fixture) rawTree(entries ...object.TreeEntry) plumbing.Hash {
	f.Helper()
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(strings.TrimLeft(e.Mode.String(), "0") + " " + e.Name + "\x00")
		b.Write(e.Hash[:])
	}
	return f.object(plumbing.TreeObject, b.String())
}

func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// commit writes a commit of a tree and points a branch at it.
func (f *fixture) commit(branch string, tree plumbing.Hash, parents ...plumbing.Hash) plumbing.Hash {
	f.Helper()
	text := "tree " + tree.String() + "\n"
	for _, p := range parents {
		text += "parent " + p.String() + "\n"
	}
	id := f.object(plumbing.CommitObject, text+"author A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n\nmessage\n")
	f.branch(branch, id)
	return id
}

func (f *fixture) branch(name string, id plumbing.Hash) {
	f.Helper()
	check.OK(f, f.repo.Storer.SetReference(plumbing.NewHashReference(plumbing.NewBranchReferenceName(name), id)))
}

// fill writes a tree of the suite, including empty directories.
func (f *fixture) fill(tree vfstest.Tree) plumbing.Hash {
	f.Helper()
	type node = []object.TreeEntry
	dirs := map[string]node{"": nil}
	var order []string
	for path, n := range tree.All() {
		parent, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			parent, name = path[:i], path[i+1:]
		}
		e := object.TreeEntry{Name: name, Mode: filemode.Regular}
		switch {
		case n.Dir:
			order = append(order, path)
			continue
		case n.Link != "":
			e.Mode, e.Hash = filemode.Symlink, f.blob(n.Link)
		default:
			if e.Hash = f.blob(n.Data); n.Exec {
				e.Mode = filemode.Executable
			}
		}
		dirs[parent] = append(dirs[parent], e)
	}
	slices.SortFunc(order, func(a, b string) int { return strings.Compare(b, a) }) // children before their parents
	for _, path := range order {
		parent, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			parent, name = path[:i], path[i+1:]
		}
		dirs[parent] = append(dirs[parent], object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: f.tree(dirs[path]...)})
	}
	return f.tree(dirs[""]...)
}

// open opens the repository, and closes it when the test ends.
func (f *fixture) open(o git.Options) *git.Store {
	f.Helper()
	s, err := git.OpenAmbient(f.dir, o)
	check.OK(f, err)
	f.Cleanup(func() { s.Close() })
	return s
}

func newTree(o git.Options) func(t testing.TB, tree vfstest.Tree) vfs.Dir {
	return func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		f := newFixture(t)
		f.commit("master", f.fill(tree))
		return f.open(o).Root()
	}
}

func newWork(o git.Options) func(t testing.TB, tree vfstest.Tree) vfs.Dir {
	return func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		f := newFixture(t)
		f.commit("master", f.fill(tree))
		return f.work(o).Root()
	}
}

func TestSuite(t *testing.T) {
	for name, s := range map[string]vfstest.Store{
		"ReadOnly": {New: newTree(git.Options{}), Immutable: true},
		"Followed": {New: newTree(git.Options{Follow: true}), Immutable: true},
		"Writable": {New: newWork(git.Options{})},
		"Both":     {New: newWork(git.Options{Follow: true, CacheBytes: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vfstest.Run(t, s)
		})
	}
}

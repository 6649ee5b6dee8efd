package tests

import (
	"maps"
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
	"capd/worktree"
)

// gitTree commits trees to a new repository. git does not make empty directories, but
// shows those that another program has put into a tree. With o.Writable the tree can be
// written to.
func gitTree(o git.Options) func(testing.TB, vfstest.Tree) vfs.Dir {
	return func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		t.Helper()
		dir := scratchDir(t)
		repo, err := gogit.PlainInit(dir, true)
		ok(t, err)
		c := object.Commit{TreeHash: gitObjects(t, repo, tree), Message: "tree"}
		head := gitObject(t, repo, c.Encode)
		ok(t, repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/master", head)))
		s, err := git.OpenAmbient(dir, o)
		ok(t, err)
		if o.Writable {
			w, err := worktree.New(t.Context(), s, inMemoryTree(t, nil))
			ok(t, err)
			t.Cleanup(func() { ok(t, w.Close()) })
			return w.Root()
		}
		t.Cleanup(func() { ok(t, s.Close()) })
		return s.Root()
	}
}

// gitObject stores what encode writes.
func gitObject(t testing.TB, repo *gogit.Repository, encode func(plumbing.EncodedObject) error) plumbing.Hash {
	t.Helper()
	o := repo.Storer.NewEncodedObject()
	ok(t, encode(o))
	id, err := repo.Storer.SetEncodedObject(o)
	ok(t, err)
	return id
}

func gitBlob(t testing.TB, repo *gogit.Repository, data string) plumbing.Hash {
	t.Helper()
	return gitObject(t, repo, func(o plumbing.EncodedObject) error {
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(data)); err != nil {
			return err
		}
		return w.Close()
	})
}

// gitObjects stores a tree with everything in it, the deepest first.
func gitObjects(t testing.TB, repo *gogit.Repository, tree vfstest.Tree) plumbing.Hash {
	t.Helper()
	dirs := map[string]*object.Tree{"": {}}
	all := maps.Collect(tree.All())
	for path, n := range all {
		if n.Dir {
			dirs[path] = &object.Tree{}
		}
	}
	paths := slices.Sorted(maps.Keys(all))
	slices.Reverse(paths) // a directory comes before its entries
	for _, path := range paths {
		n := all[path]
		e := object.TreeEntry{Name: path[strings.LastIndexByte(path, '/')+1:], Mode: filemode.Regular}
		switch {
		case n.Dir:
			e.Mode, e.Hash = filemode.Dir, gitTreeObject(t, repo, dirs[path])
		case n.Link != "":
			e.Mode, e.Hash = filemode.Symlink, gitBlob(t, repo, n.Link)
		default:
			if e.Hash = gitBlob(t, repo, n.Data); n.Exec {
				e.Mode = filemode.Executable
			}
		}
		parent := dirs[path[:max(0, strings.LastIndexByte(path, '/'))]]
		parent.Entries = append(parent.Entries, e)
	}
	return gitTreeObject(t, repo, dirs[""])
}

func gitTreeObject(t testing.TB, repo *gogit.Repository, tree *object.Tree) plumbing.Hash {
	t.Helper()
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(gitOrder(a), gitOrder(b)) })
	return gitObject(t, repo, tree.Encode)
}

// gitOrder returns the key by which git sorts entries.
func gitOrder(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

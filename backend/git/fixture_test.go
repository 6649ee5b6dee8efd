package git_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var author = git.Author{Name: "A U Thor", Email: "a@example.org"}

func onto(ref string) git.CommitOptions {
	return git.CommitOptions{Message: "a change\n\nand why", Author: author, Ref: ref}
}

func put(t testing.TB, d vfs.Dir, path, data string) {
	t.Helper()
	parent, name, release, err := vfs.WalkParent(t.Context(), d, path)
	check.OK(t, err)
	defer release()
	_, err = parent.Replace(t.Context(), name, strings.NewReader(data), vfs.If{})
	check.OK(t, err)
}

func content(t testing.TB, d vfs.Dir, path string) string {
	t.Helper()
	f, err := vfs.WalkFile(t.Context(), d, path)
	check.OK(t, err)
	buf := make([]byte, 1<<20)
	n, err := readFile(t.Context(), f, buf)
	check.OK(t, err)
	return string(buf[:n])
}

func sub(t testing.TB, d vfs.Dir, path string) vfs.Dir {
	t.Helper()
	below, err := vfs.WalkDir(t.Context(), d, path)
	check.OK(t, err)
	return below
}

// sound fails the test if git fsck finds something wrong with a repository.
func sound(t testing.TB, dir string) {
	t.Helper()
	gitCLI(t, dir, "", "fsck", "--strict", "--full", "--no-dangling")
}

// everything returns all files of a repository with their contents and times.
func everything(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	check.OK(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = info.ModTime().String() + "\n" + string(data)
		return err
	}))
	return all
}

var sample = vfstest.Tree{
	"README":     {Data: "read me\n"},
	"run":        {Data: "#!/bin/sh\n", Exec: true},
	"link":       {Link: "README"},
	"src/a.go":   {Data: "package a\n"},
	"src/b.go":   {Data: "package b\n"},
	"src/x/y/z":  {Data: "deep\n"},
	"src-a":      {Data: "sorts before src/\n"},
	"only/one":   {Data: "one\n"},
	"other/keep": {Data: "kept\n"},
}

// withSubmodule adds a submodule called vendor to a tree.
func (f *fixture) withSubmodule(tree plumbing.Hash) (root, module plumbing.Hash) {
	f.Helper()
	module = plumbing.NewHash("1234567890123456789012345678901234567890")
	modules := f.blob("[submodule \"v\"]\n\tpath = vendor\n\turl = https://example.org/v\n")
	o, err := f.repo.TreeObject(tree)
	check.OK(f, err)
	return f.tree(append(o.Entries,
		object.TreeEntry{Name: "vendor", Mode: filemode.Submodule, Hash: module},
		object.TreeEntry{Name: ".gitmodules", Mode: filemode.Regular, Hash: modules})...), module
}

// refs returns all refs and locks of the repository as they are stored.
func (f *fixture) refs() map[string]string {
	f.Helper()
	all := map[string]string{}
	check.OK(f, filepath.WalkDir(filepath.Join(f.dir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data, err := os.ReadFile(path)
			all[path] = string(data)
			return err
		}
		return err
	}))
	return all
}

func errorOf[T any](_ T, err error) error { return err }

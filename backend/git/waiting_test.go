package git_test

import (
	"math"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// What of a directory has no name here keeps it from being removed.
func TestRemoveBesideALongName(t *testing.T) {
	f := newFixture(t)
	long := f.tree(object.TreeEntry{Name: strings.Repeat("n", 300), Mode: filemode.Regular, Hash: f.blob("x")})
	f.commit("master", f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: long}))
	s := f.work(git.Options{})
	require.ErrorIs(t, s.Root().Remove(t.Context(), "d", vfs.If{}), vfs.NotEmpty)
	require.NoError(t, s.Root().Rename(t.Context(), "d", s.Root(), "e", vfs.If{}, vfs.If{}))
	require.ErrorIs(t, s.Root().Remove(t.Context(), "e", vfs.If{}), vfs.NotEmpty)
	assert.True(t, s.Changed(t))
}

// A directory moves with the submodules in it, and they stay as they are.
func TestSubmoduleMovesWithItsDirectory(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	below, module := f.withSubmodule(f.fill(sample))
	f.commit("main", f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: below}))
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	_, err := root.Mkdir(ctx, "in")
	require.NoError(t, err)
	require.NoError(t, root.Rename(ctx, "d", sub(t, root, "in"), "moved", vfs.If{}, vfs.If{}))
	vendor := sub(t, root, "in/moved/vendor")
	require.ErrorIs(t, errorOf(vendor.Create(ctx, "f")), vfs.ReadOnly)
	require.ErrorIs(t, sub(t, root, "in/moved").Remove(ctx, "vendor", vfs.If{}), vfs.ReadOnly)
	put(t, root, "in/moved/src/a.go", "package b\n")
	require.NoError(t, sub(t, root, "in/moved").Rename(ctx, "only", root, "out", vfs.If{}, vfs.If{}))
	require.NoError(t, sub(t, root, "in/moved/other").Remove(ctx, "keep", vfs.If{}))
	_, err = s.Commit(ctx, onto("main"))
	require.NoError(t, err)
	sound(t, f.dir)
	assert.Contains(t, gitCLI(t, f.dir, "", "ls-tree", "-r", "main", "in/moved/vendor"), module.String())
	assert.Equal(t, strings.Join([]string{
		"100644 in/moved/.gitmodules", "100644 in/moved/README", "120000 in/moved/link", "100755 in/moved/run", "100644 in/moved/src-a",
		"100644 in/moved/src/a.go", "100644 in/moved/src/b.go", "100644 in/moved/src/x/y/z", "160000 in/moved/vendor", "100644 out/one",
	}, "\n"), strings.TrimSpace(gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")))
	_, err = sub(t, root, "in/moved").Lookup(ctx, "other")
	require.NoError(t, err, "a directory that became empty stays where it is")
}

// No file becomes longer than git can take, however it is written.
func TestFilesAreBounded(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	file, err := vfs.WalkFile(t.Context(), s.Root(), "README")
	require.NoError(t, err)
	require.ErrorIs(t, errorOf(file.WriteAt(t.Context(), []byte("x"), 4<<30, vfs.If{})), vfs.Limit)
	require.ErrorIs(t, errorOf(file.WriteAt(t.Context(), []byte("x"), math.MaxInt64-1, vfs.If{})), vfs.Limit)
	require.ErrorIs(t, file.Truncate(t.Context(), 4<<30+1, vfs.If{}), vfs.Limit)
	assert.Equal(t, "read me\n", content(t, s.Root(), "README"))
	assert.False(t, s.Changed(t))
}

// The executable bit follows a file through writes, moves and commits.
func TestExecutableBits(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"run": {Data: "1", Exec: true}, "place": {Data: "2", Exec: true}, "moved": {Data: "3", Exec: true}, "off": {Data: "4", Exec: true}, "on": {Data: "5"}}))
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	put(t, root, "run", "replaced")
	file, err := vfs.WalkFile(ctx, root, "place")
	require.NoError(t, err)
	_, err = file.WriteAt(ctx, []byte("in place"), 0, vfs.If{})
	require.NoError(t, err)
	require.NoError(t, root.Rename(ctx, "moved", root, "there", vfs.If{}, vfs.If{}))
	for name, exec := range map[string]bool{"off": false, "on": true} {
		_, err = vfs.Install(ctx, root, name, strings.NewReader(content(t, root, name)), exec, vfs.If{})
		require.NoError(t, err)
	}
	changes, err := s.Changes(ctx)
	require.NoError(t, err)
	assert.Len(t, changes, 6)
	_, err = s.Commit(ctx, onto("main"))
	require.NoError(t, err)
	sound(t, f.dir)
	assert.Equal(t, "100644 off\n100755 on\n100755 place\n100755 run\n100755 there\n", gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main"))
}

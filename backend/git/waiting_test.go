package git_test

import (
	"math"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// A directory with an entry that vfs cannot name cannot be removed.
func TestRemoveBesideALongName(t *testing.T) {
	f := newFixture(t)
	long := f.tree(object.TreeEntry{Name: strings.Repeat("n", 300), Mode: filemode.Regular, Hash: f.blob("x")})
	f.commit("master", f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: long}))
	s := f.work(git.Options{})
	check.Is(t, `s.Root().Remove("d")`, s.Root().Remove(t.Context(), "d", vfs.If{}), vfs.NotEmpty)
	check.OK(t, s.Root().Rename(t.Context(), "d", s.Root(), "e", vfs.If{}, vfs.If{}))
	check.Is(t, `s.Root().Remove("e")`, s.Root().Remove(t.Context(), "e", vfs.If{}), vfs.NotEmpty)
	if !s.Changed(t) {
		t.Error("s.Changed() = false, want true")
	}
}

// Submodules move with their directory, and do not change.
func TestSubmoduleMovesWithItsDirectory(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	below, module := f.withSubmodule(f.fill(sample))
	f.commit("main", f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: below}))
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	_, err := root.Mkdir(ctx, "in")
	check.OK(t, err)
	check.OK(t, root.Rename(ctx, "d", sub(t, root, "in"), "moved", vfs.If{}, vfs.If{}))
	vendor := sub(t, root, "in/moved/vendor")
	check.Is(t, `vendor.Create("f")`, errorOf(vendor.Create(ctx, "f")), vfs.ReadOnly)
	check.Is(t, `sub(root, "in/moved").Remove("vendor")`, sub(t, root, "in/moved").Remove(ctx, "vendor", vfs.If{}), vfs.ReadOnly)
	put(t, root, "in/moved/src/a.go", "package b\n")
	check.OK(t, sub(t, root, "in/moved").Rename(ctx, "only", root, "out", vfs.If{}, vfs.If{}))
	check.OK(t, sub(t, root, "in/moved/other").Remove(ctx, "keep", vfs.If{}))
	_, err = s.Commit(ctx, onto("main"))
	check.OK(t, err)
	sound(t, f.dir)
	if got, part := gitCLI(t, f.dir, "", "ls-tree", "-r", "main", "in/moved/vendor"), module.String(); !strings.Contains(got, part) {
		t.Errorf("git ls-tree -r main in/moved/vendor = %q, want it to contain %q", got, part)
	}
	if got, want := strings.TrimSpace(gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")), strings.Join([]string{
		"100644 in/moved/.gitmodules", "100644 in/moved/README", "120000 in/moved/link", "100755 in/moved/run", "100644 in/moved/src-a",
		"100644 in/moved/src/a.go", "100644 in/moved/src/b.go", "100644 in/moved/src/x/y/z", "160000 in/moved/vendor", "100644 out/one",
	}, "\n"); got != want {
		t.Errorf("git ls-tree -r --format=%%(objectmode) %%(path) main = %q, want %q", got, want)
	}
	_, err = sub(t, root, "in/moved").Lookup(ctx, "other")
	if err != nil {
		t.Fatalf("Lookup of a directory that became empty: %v", err)
	}
}

// No write makes a file longer than git can store.
func TestFilesAreBounded(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	file, err := vfs.WalkFile(t.Context(), s.Root(), "README")
	check.OK(t, err)
	check.Is(t, `file.WriteAt([]byte("x"), 4<<30)`, errorOf(file.WriteAt(t.Context(), []byte("x"), 4<<30, vfs.If{})), vfs.Limit)
	check.Is(t, `file.WriteAt([]byte("x"), math.MaxInt64-1)`, errorOf(file.WriteAt(t.Context(), []byte("x"), math.MaxInt64-1, vfs.If{})), vfs.Limit)
	check.Is(t, "file.Truncate(4<<30+1)", file.Truncate(t.Context(), 4<<30+1, vfs.If{}), vfs.Limit)
	if got, want := content(t, s.Root(), "README"), "read me\n"; got != want {
		t.Errorf(`content(s.Root(), "README") = %q, want %q`, got, want)
	}
	if s.Changed(t) {
		t.Error("s.Changed() = true, want false")
	}
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
	check.OK(t, err)
	_, err = file.WriteAt(ctx, []byte("in place"), 0, vfs.If{})
	check.OK(t, err)
	check.OK(t, root.Rename(ctx, "moved", root, "there", vfs.If{}, vfs.If{}))
	for name, exec := range map[string]bool{"off": false, "on": true} {
		_, err = vfs.Install(ctx, root, name, strings.NewReader(content(t, root, name)), exec, vfs.If{})
		check.OK(t, err)
	}
	changes, err := s.Changes(ctx)
	check.OK(t, err)
	if len(changes) != 5 {
		t.Errorf("changes = %v, want 5 of them", changes)
	}
	_, err = s.Commit(ctx, onto("main"))
	check.OK(t, err)
	sound(t, f.dir)
	if got, want := gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main"), "100644 off\n100755 on\n100755 place\n100755 run\n100755 there\n"; got != want {
		t.Errorf("git ls-tree -r --format=%%(objectmode) %%(path) main = %q, want %q", got, want)
	}
}

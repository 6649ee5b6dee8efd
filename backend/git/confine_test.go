package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// fillWith writes a tree of one file.
func (f *fixture) fillWith(name string, blob plumbing.Hash) plumbing.Hash {
	return f.tree(object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: blob})
}

// workingTree makes a repository with a working tree and one commit, and returns its path.
func workingTree(t *testing.T, data string) string {
	t.Helper()
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "-b", "main")
	check.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte(data), 0o666))
	gitCLI(t, dir, "", "add", "f")
	gitCLI(t, dir, "", "commit", "-qm", "x")
	return dir
}

func confined(t *testing.T, dir string) (work, error) {
	t.Helper()
	s, err := openWork(dir, git.Options{Confined: true})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// A working tree may lead into another repository. It is followed only if the host names
// it.
func TestConfined(t *testing.T) {
	write := func(t *testing.T, path, data string) {
		t.Helper()
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
		check.OK(t, os.WriteFile(path, []byte(data), 0o666))
	}
	link := func(t *testing.T, to, path string) {
		t.Helper()
		check.OK(t, os.RemoveAll(path))
		check.OK(t, os.Symlink(to, path))
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir, private string)
		says string
	}{
		"gitdir": {func(t *testing.T, dir, private string) {
			check.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
			write(t, filepath.Join(dir, ".git"), "gitdir: "+private+"/.git\n")
		}, ".git"},
		"gitdir of another's worktree": {func(t *testing.T, dir, private string) {
			gitCLI(t, private, "", "worktree", "add", "-q", filepath.Join(t.TempDir(), "w"))
			check.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
			write(t, filepath.Join(dir, ".git"), "gitdir: "+private+"/.git/worktrees/w\n")
		}, ".git"},
		"gitdir of its own making": {func(t *testing.T, dir, private string) {
			check.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
			own := filepath.Join(dir, "own", "worktrees", "w")
			write(t, filepath.Join(own, "HEAD"), "ref: refs/heads/main\n")
			write(t, filepath.Join(own, "commondir"), private+"/.git\n")
			write(t, filepath.Join(own, "gitdir"), filepath.Join(dir, ".git")+"\n")
			write(t, filepath.Join(dir, ".git"), "gitdir: "+own+"\n")
		}, ".git"},
		"another's .git file": {func(t *testing.T, dir, private string) {
			w := filepath.Join(t.TempDir(), "w")
			gitCLI(t, private, "", "worktree", "add", "-q", w)
			check.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
			check.OK(t, os.Link(filepath.Join(w, ".git"), filepath.Join(dir, ".git")))
		}, ".git"},
		"commondir": {func(t *testing.T, dir, private string) {
			write(t, filepath.Join(dir, ".git", "commondir"), private+"/.git\n")
		}, "commondir"},
		"alternates": {func(t *testing.T, dir, private string) {
			write(t, filepath.Join(dir, ".git/objects/info/alternates"), private+"/.git/objects\n")
		}, "alternates"},
		".git":    {func(t *testing.T, dir, private string) { link(t, private+"/.git", dir+"/.git") }, ".git"},
		"objects": {func(t *testing.T, dir, private string) { link(t, private+"/.git/objects", dir+"/.git/objects") }, "objects"},
		"refs":    {func(t *testing.T, dir, private string) { link(t, private+"/.git/refs", dir+"/.git/refs") }, "refs"},
		"heads":   {func(t *testing.T, dir, private string) { link(t, private+"/.git/refs/heads", dir+"/.git/refs/heads") }, "heads"},
		"a branch": {func(t *testing.T, dir, private string) {
			link(t, private+"/.git/refs/heads/main", dir+"/.git/refs/heads/main")
		}, "main"},
		"HEAD":        {func(t *testing.T, dir, private string) { link(t, private+"/.git/HEAD", dir+"/.git/HEAD") }, "HEAD"},
		"config":      {func(t *testing.T, dir, private string) { link(t, private+"/.git/config", dir+"/.git/config") }, "config"},
		"packed-refs": {func(t *testing.T, dir, private string) { link(t, private+"/.git/HEAD", dir+"/.git/packed-refs") }, "packed-refs"},
	} {
		t.Run(name, func(t *testing.T) {
			private, dir := workingTree(t, "private"), workingTree(t, "public")
			c.do(t, dir, private)
			_, err := confined(t, dir)
			check.Is(t, "confined", err, vfs.Outside)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("confined: %v, want it to contain %q", err, c.says)
			}
		})
	}
	t.Run("Objects", func(t *testing.T) {
		private, dir := workingTree(t, "private"), workingTree(t, "public")
		s, err := confined(t, dir)
		check.OK(t, err)
		check.OK(t, os.RemoveAll(filepath.Join(dir, ".git/objects")))
		check.OK(t, os.Symlink(filepath.Join(private, ".git/objects"), filepath.Join(dir, ".git/objects")))
		n, err := s.Root().Lookup(t.Context(), "f")
		check.OK(t, err)
		_, err = vfs.Open(t.Context(), n.(vfs.File))
		if !errors.Is(err, vfs.Outside) {
			t.Fatalf("open through a link that was made later: %v, want %v", err, vfs.Outside)
		}
		if got := err.Error(); strings.Contains(got, dir) {
			t.Errorf("the error is %q, want it not to contain %q", got, dir)
		}
	})
	t.Run("Fine", func(t *testing.T) {
		dir := workingTree(t, "public")
		w := filepath.Join(t.TempDir(), "w")
		gitCLI(t, dir, "", "worktree", "add", "-q", w)
		bare := filepath.Join(t.TempDir(), "bare")
		gitCLI(t, dir, "", "clone", "-q", "--bare", "--no-local", dir, bare)
		linked := filepath.Join(t.TempDir(), "link")
		check.OK(t, os.Symlink(dir, linked))
		for _, at := range []string{dir, filepath.Join(dir, ".git"), w, filepath.Join(w, ".git"), bare, linked} {
			s, err := confined(t, at)
			if err != nil {
				t.Fatalf("%s: confined: %v", at, err)
			}
			if got, want := content(t, s.Root(), "f"), "public"; got != want {
				t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
			}
			put(t, s.Root(), "f", at)
			_, err = s.Commit(t.Context(), onto("agent/"+filepath.Base(filepath.Dir(at))+filepath.Base(at)))
			if err != nil {
				t.Fatalf("%s: s.Commit: %v", at, err)
			}
		}
		sound(t, dir)
		sound(t, bare)
	})
}

// Commits change nothing outside the repository.
func TestCommitThroughLinks(t *testing.T) {
	for _, name := range []string{"objects", "refs/heads", "refs/heads/agent", "logs", "logs/refs/heads/agent/x"} {
		t.Run(name, func(t *testing.T) {
			dir := workingTree(t, "x")
			outside := t.TempDir()
			before := filepath.Join(dir, ".git", filepath.FromSlash(name))
			if _, err := os.Stat(before); err == nil {
				moved := filepath.Join(outside, "moved")
				check.OK(t, os.Rename(before, moved))
				outside = moved
			}
			check.OK(t, os.MkdirAll(filepath.Dir(before), 0o777))
			check.OK(t, os.Symlink(outside, before))
			want := everything(t, outside)
			s, err := openWork(dir, git.Options{})
			if err != nil {
				t.Fatalf("openWork of what the host names: %v", err)
			}
			t.Cleanup(func() { s.Close() })
			put(t, s.Root(), "f", "written")
			_, err = s.Commit(t.Context(), onto("agent/x"))
			check.Is(t, "s.Commit", err, vfs.Outside)
			if got := everything(t, outside); !reflect.DeepEqual(got, want) {
				t.Errorf("everything(outside) = %v, want %v", got, want)
			}
			if !s.Changed(t) {
				t.Error("s.Changed() = false, want true")
			}
		})
	}
}

func TestRevisionThatIsNotThere(t *testing.T) {
	f := newFixture(t)
	f.commit("master", f.fillWith("f", f.blob("x")))
	for _, revision := range []string{"none", "none~1", "HEAD~7", "HEAD^{", "HEAD@{", "a b", ":/x", "abcdef0"} {
		_, err := git.OpenAmbient(f.dir, git.Options{Revision: revision})
		if err == nil {
			t.Fatalf("%s: git.OpenAmbient: no error", revision)
		}
		if got := err.Error(); strings.Contains(got, "EOF") {
			t.Errorf("%s: the error is %q, want it not to contain %q", revision, got, "EOF")
		}
		if got := vfs.CodeOf(err); !slices.Contains([]vfs.Code{vfs.NotFound, vfs.Invalid}, got) {
			t.Errorf("%s: the code is %q, want one of %v", revision, got, []vfs.Code{vfs.NotFound, vfs.Invalid})
		}
	}
}

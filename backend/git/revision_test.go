package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// history makes a repository with a merge, tags and a remote's branch.
func history(t testing.TB) *fixture {
	t.Helper()
	needGit(t)
	f := newFixture(t)
	gitCLI(t, f.dir, "", "symbolic-ref", "HEAD", "refs/heads/main")
	tree := func(data string) plumbing.Hash { return f.fill(vfstest.Tree{"f": {Data: data}}) }
	first := f.commit("main", tree("first"))
	second := f.commit("main", tree("second"), first)
	side := f.commit("side/branch", tree("side"), first)
	f.commit("main", tree("merged"), second, side)
	gitCLI(t, f.dir, "", "tag", "light", second.String())
	gitCLI(t, f.dir, "", "tag", "-a", "-m", "annotated", "v1.0", side.String())
	gitCLI(t, f.dir, "", "tag", "-a", "-m", "of a tag", "v1.0-again", "v1.0")
	gitCLI(t, f.dir, "", "update-ref", "refs/remotes/origin/main", first.String())
	gitCLI(t, f.dir, "", "symbolic-ref", "refs/heads/alias", "refs/heads/main")
	return f
}

func TestRevision(t *testing.T) {
	f := history(t)
	full := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main^2"))
	for _, packed := range []bool{false, true} {
		if packed {
			gitCLI(t, f.dir, "", "gc", "-q")
		}
		for revision, ref := range map[string]string{
			"HEAD": "refs/heads/main", "": "refs/heads/main", "main": "refs/heads/main", "heads/main": "refs/heads/main",
			"refs/heads/main": "refs/heads/main", "side/branch": "refs/heads/side/branch", "alias": "refs/heads/main",
			"light": "refs/tags/light", "v1.0": "refs/tags/v1.0", "v1.0-again": "refs/tags/v1.0-again",
			"origin/main": "refs/remotes/origin/main", "@": "refs/heads/main",
			full: "", full[:7]: "", full[:8]: "", "HEAD~1": "", "HEAD~2": "", "HEAD^": "", "HEAD^2": "", "main^2~1": "", "v1.0^{}": "", "v1.0~1": "",
			full[:9] + "~1": "",
		} {
			s, err := git.OpenAmbient(f.dir, git.Options{Revision: revision})
			if err != nil {
				t.Fatalf("%q: %v", revision, err)
			}
			name := revision
			if name == "" {
				name = "HEAD"
			}
			want := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", name+"^{commit}"))
			if got, want := s.Revision(), (git.Revision{Ref: ref, Commit: want}); got != want {
				t.Errorf("%q: %v, want %v", revision, got, want)
			}
			if got, want := content(t, s.Root(), "f"), gitCLI(t, f.dir, "", "show", want+":f"); got != want {
				t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
			}
			check.OK(t, s.Close())
		}
		tree := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main^{tree}"))
		for revision, code := range map[string]vfs.Code{
			"missing": vfs.NotFound, "refs/heads/missing": vfs.NotFound, strings.Repeat("1", 40): vfs.NotFound, "1111111": vfs.NotFound,
			"HEAD~9": vfs.NotFound, "HEAD^3": vfs.NotFound, "../config": vfs.NotFound, "config": vfs.NotFound, "a": vfs.NotFound, tree: vfs.Invalid,
			"^1": vfs.Invalid, "~": vfs.Invalid, "HEAD^{": vfs.NotFound, "a b": vfs.NotFound,
		} {
			_, err := git.OpenAmbient(f.dir, git.Options{Revision: revision})
			if code == vfs.Invalid && vfs.CodeOf(err) == vfs.NotFound {
				continue // go-git returns NotFound for some of them
			}
			check.Is(t, fmt.Sprintf("%q", revision), err, code)
		}
	}
}

func TestFollowedTag(t *testing.T) {
	f := history(t)
	s := f.open(git.Options{Revision: "v1.0", Follow: true})
	if got, want := content(t, s.Root(), "f"), "side"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
	}
	gitCLI(t, f.dir, "", "tag", "-f", "-a", "-m", "moved", "v1.0", "main")
	if got, want := content(t, s.Root(), "f"), "merged"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
	}

	gitCLI(t, f.dir, "", "symbolic-ref", "refs/heads/broken", "refs/heads/none")
	_, err := git.OpenAmbient(f.dir, git.Options{Revision: "broken"})
	check.Is(t, "git.OpenAmbient", err, vfs.NotFound)
}

// A prefix that two commit ids share is refused.
func TestRevisionAmbiguous(t *testing.T) {
	f := newFixture(t)
	tree := f.fill(vfstest.Tree{})
	seen := map[string]bool{}
	for i := 0; ; i++ {
		text := fmt.Sprintf("tree %s\nauthor A <a@b> %d +0000\ncommitter A <a@b> %d +0000\n\nm\n", tree, i+1, i+1)
		short := f.object(plumbing.CommitObject, text).String()[:4]
		if seen[short] {
			f.commit("master", tree)
			_, err := git.OpenAmbient(f.dir, git.Options{Revision: short})
			if !errors.Is(err, vfs.Invalid) {
				t.Fatalf("git.OpenAmbient: %v, want %v", err, vfs.Invalid)
			}
			if got := err.Error(); !strings.Contains(got, "more than one") {
				t.Errorf("the error is %q, want it to contain %q", got, "more than one")
			}
			return
		}
		seen[short] = true
	}
}

func TestPinnedAndFollowed(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	first := f.commit("master", f.fill(vfstest.Tree{"d/f": {Data: "old"}, "gone/g": {Data: "x"}, "t/u": {Data: "x"}}))
	pinned := f.open(git.Options{Revision: "master"})
	followed := f.open(git.Options{Revision: "master", Follow: true})
	ctx := t.Context()
	file, err := vfs.WalkFile(ctx, followed.Root(), "d/f")
	check.OK(t, err)
	gone, turned := sub(t, followed.Root(), "gone"), sub(t, followed.Root(), "t")

	second := f.commit("master", f.fill(vfstest.Tree{"d/f": {Data: "new"}, "t": {Data: "a file"}}), first)
	for _, packed := range []bool{false, true} {
		if packed {
			gitCLI(t, f.dir, "", "pack-refs", "--all")
			gitCLI(t, f.dir, "", "repack", "-adq")
		}
		if got, want := content(t, pinned.Root(), "d/f"), "old"; got != want {
			t.Errorf(`content(pinned.Root(), "d/f") = %q, want %q`, got, want)
		}
		if got, want := pinned.Revision().Commit, first.String(); got != want {
			t.Errorf("pinned.Revision().Commit = %q, want %q", got, want)
		}
		if got, want := content(t, followed.Root(), "d/f"), "new"; got != want {
			t.Errorf(`content(followed.Root(), "d/f") = %q, want %q`, got, want)
		}
		if got, want := followed.Revision().Commit, second.String(); got != want {
			t.Errorf("followed.Revision().Commit = %q, want %q", got, want)
		}
		buf := make([]byte, 3)
		_, err = file.ReadAt(ctx, buf, 0)
		check.OK(t, err)
		if got, want := string(buf), "new"; got != want {
			t.Errorf("a file that was open before the branch moved = %q, want %q", got, want)
		}
		check.Is(t, "gone.Stat()", errorOf(gone.Stat(ctx)), vfs.Stale)
		check.Is(t, "turned.Stat()", errorOf(turned.Stat(ctx)), vfs.Stale)
	}
	gitCLI(t, f.dir, "", "update-ref", "refs/heads/master", first.String())
	if got, want := content(t, followed.Root(), "d/f"), "old"; got != want {
		t.Errorf(`content(followed.Root(), "d/f") = %q, want %q: after packing too`, got, want)
	}

	gitCLI(t, f.dir, "", "update-ref", "-d", "refs/heads/master")
	check.Is(t, "followed.Root().Stat()", errorOf(followed.Root().Stat(ctx)), vfs.NotFound)
	if got, want := content(t, pinned.Root(), "d/f"), "old"; got != want {
		t.Errorf(`content(pinned.Root(), "d/f") = %q, want %q`, got, want)
	}
	f.branch("master", second)
	if got, want := content(t, followed.Root(), "d/f"), "new"; got != want {
		t.Errorf(`content(followed.Root(), "d/f") = %q, want %q`, got, want)
	}

	_, err = git.OpenAmbient(f.dir, git.Options{Revision: first.String(), Follow: true})
	check.Is(t, "git.OpenAmbient", err, vfs.Invalid)
}

func TestFollowedAndWritten(t *testing.T) {
	f := newFixture(t)
	first := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "old"}}))
	s := f.work(git.Options{Revision: "master", Follow: true})
	ctx := t.Context()
	put(t, s.Root(), "mine", "x")
	second := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "new"}}), first)
	if got, want := content(t, s.Root(), "f"), "old"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q, since there are changes`, got, want)
	}
	_, err := s.Commit(ctx, onto(""))
	check.Is(t, "s.Commit", err, vfs.Conflict)
	check.OK(t, s.Discard(ctx))
	if got, want := content(t, s.Root(), "f"), "new"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
	}
	if got, want := s.Revision().Commit, second.String(); got != want {
		t.Errorf("s.Revision().Commit = %q, want %q", got, want)
	}
	put(t, s.Root(), "mine", "x")
	id, err := s.Commit(ctx, onto(""))
	check.OK(t, err)
	third := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "newer"}}), plumbing.NewHash(id))
	if got, want := content(t, s.Root(), "f"), "newer"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
	}
	if got, want := s.Revision().Commit, third.String(); got != want {
		t.Errorf("s.Revision().Commit = %q, want %q", got, want)
	}
}

func TestFind(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q")
	deep := filepath.Join(dir, "a", "b")
	check.OK(t, os.MkdirAll(deep, 0o777))
	for _, at := range []string{deep, filepath.Join(dir, "a"), dir} {
		repo, ok := git.FindAmbient(at)
		if !ok {
			t.Error("FindAmbient finds no repository")
		}
		if repo != dir {
			t.Errorf("FindAmbient = %q, want %q", repo, dir)
		}
	}
	repo, ok := git.FindAmbient(filepath.Join(dir, ".git", "refs"))
	if !ok {
		t.Error("FindAmbient finds no repository")
	}
	if want := filepath.Join(dir, ".git"); repo != want {
		t.Errorf("FindAmbient = %q, want %q", repo, want)
	}
	_, err := git.OpenAmbient(deep, git.Options{})
	check.Is(t, "open of a directory below a repository", err, vfs.NotFound)
	_, err = git.OpenAmbient(filepath.Join(dir, "missing"), git.Options{})
	check.Is(t, "git.OpenAmbient", err, vfs.NotFound)
}

func TestLayouts(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	first := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "old"}}))
	f.commit("master", f.fill(vfstest.Tree{"f": {Data: "new"}}), first)
	opens := func(t *testing.T, dir, want string) work {
		t.Helper()
		s, err := openWork(dir, git.Options{})
		check.OK(t, err)
		t.Cleanup(func() { s.Close() })
		if got := content(t, s.Root(), "f"); got != want {
			t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
		}
		return s
	}
	t.Run("Alternates", func(t *testing.T) {
		middle, last := filepath.Join(t.TempDir(), "middle"), filepath.Join(t.TempDir(), "last")
		gitCLI(t, f.dir, "", "clone", "-q", "--bare", "--shared", f.dir, middle)
		gitCLI(t, f.dir, "", "clone", "-q", "--bare", "--shared", middle, last)
		s := opens(t, last, "new")
		put(t, s.Root(), "f", "written")
		_, err := s.Commit(t.Context(), onto("other"))
		check.OK(t, err)
		sound(t, last)
	})
	t.Run("Shallow", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "shallow")
		gitCLI(t, f.dir, "", "clone", "-q", "--depth", "1", "file://"+f.dir, dir)
		s := opens(t, dir, "new")
		_, err := git.OpenAmbient(dir, git.Options{Revision: "HEAD~1"})
		check.Is(t, "git.OpenAmbient", err, vfs.NotFound)
		put(t, s.Root(), "f", "written")
		_, err = s.Commit(t.Context(), onto("other"))
		check.OK(t, err)
		sound(t, dir)
	})
	t.Run("Replaced", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "replaced")
		gitCLI(t, f.dir, "", "clone", "-q", "--bare", f.dir, dir)
		gitCLI(t, dir, "", "replace", "master", "master~1")
		opens(t, dir, gitCLI(t, dir, "", "show", "master:f"))
	})
	t.Run("Detached", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "detached")
		gitCLI(t, f.dir, "", "clone", "-q", f.dir, dir)
		gitCLI(t, dir, "", "checkout", "-q", first.String())
		s := opens(t, dir, "old")
		if got, want := s.Revision(), (git.Revision{Commit: first.String()}); got != want {
			t.Errorf("s.Revision() = %v, want %v", got, want)
		}
		put(t, s.Root(), "f", "x")
		_, err := s.Commit(t.Context(), onto(""))
		check.Is(t, "commit without a branch", err, vfs.Invalid)
	})
	for name, setting := range map[string][]string{
		"Sha256":   {"extensions.objectFormat", "sha256"},
		"Reftable": {"extensions.refStorage", "reftable"},
		"Unknown":  {"extensions.fromTheFuture", "true"},
		"Version":  {"core.repositoryFormatVersion", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gitCLI(t, dir, "", "init", "-q", "--bare")
			config := filepath.Join(dir, "config")
			section, key, _ := strings.Cut(setting[0], ".")
			check.OK(t, os.WriteFile(config, []byte(fmt.Sprintf("[core]\nrepositoryformatversion = 1\n[%s]\n%s = %s\n", section, key, setting[1])), 0o666))
			_, err := git.OpenAmbient(dir, git.Options{})
			check.Is(t, "git.OpenAmbient", err, vfs.Unsupported)
		})
	}
	t.Run("Sha256 by git itself", func(t *testing.T) {
		dir := t.TempDir()
		gitCLI(t, dir, "", "init", "-q", "--object-format=sha256")
		_, err := git.OpenAmbient(dir, git.Options{})
		check.Is(t, "git.OpenAmbient", err, vfs.Unsupported)
	})
}

// Each call returns a root of its own. Closing one leaves the others open.
func TestPart(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"a/b/c": {Data: "c"}, "f": {Data: "f"}}))
	s := f.open(git.Options{Revision: "main"})
	root, err := s.Part(t.Context(), "a/b")
	check.OK(t, err)
	first, second := root(), root()
	check.OK(t, first.Close())
	if got, want := names(t, second), []string{"c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("names(second) = %v, want %v", got, want)
	}
	if got, want := names(t, root()), []string{"c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("names(root()) = %v, want %v", got, want)
	}
	for path, want := range map[string]vfs.Code{"a/none": vfs.NotFound, "f": vfs.NotDir, "f/x": vfs.NotDir, "../a": vfs.Invalid} {
		_, err := s.Part(t.Context(), path)
		check.Is(t, "s.Part "+path, err, want)
	}
}

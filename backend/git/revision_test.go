package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
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
			require.NoErrorf(t, err, "%q", revision)
			name := revision
			if name == "" {
				name = "HEAD"
			}
			want := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", name+"^{commit}"))
			assert.Equal(t, git.Revision{Ref: ref, Commit: want}, s.Revision(), "%q", revision)
			assert.Equal(t, gitCLI(t, f.dir, "", "show", want+":f"), content(t, s.Root(), "f"))
			require.NoError(t, s.Close())
		}
		tree := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main^{tree}"))
		for revision, code := range map[string]vfs.Code{
			"missing": vfs.NotFound, "refs/heads/missing": vfs.NotFound, strings.Repeat("1", 40): vfs.NotFound, "1111111": vfs.NotFound,
			"HEAD~9": vfs.NotFound, "HEAD^3": vfs.NotFound, "../config": vfs.NotFound, "config": vfs.NotFound, "a": vfs.NotFound, tree: vfs.Invalid,
			"^1": vfs.Invalid, "~": vfs.Invalid, "HEAD^{": vfs.NotFound, "a b": vfs.NotFound,
		} {
			_, err := git.OpenAmbient(f.dir, git.Options{Revision: revision})
			if code == vfs.Invalid && vfs.CodeOf(err) == vfs.NotFound {
				continue // go-git says so of some
			}
			require.ErrorIs(t, err, code, "%q", revision)
		}
	}
}

func TestFollowedTag(t *testing.T) {
	f := history(t)
	s := f.open(git.Options{Revision: "v1.0", Follow: true})
	assert.Equal(t, "side", content(t, s.Root(), "f"))
	gitCLI(t, f.dir, "", "tag", "-f", "-a", "-m", "moved", "v1.0", "main")
	assert.Equal(t, "merged", content(t, s.Root(), "f"))

	gitCLI(t, f.dir, "", "symbolic-ref", "refs/heads/broken", "refs/heads/none")
	_, err := git.OpenAmbient(f.dir, git.Options{Revision: "broken"})
	require.ErrorIs(t, err, vfs.NotFound)
}

// Two commits whose ids begin alike can only be told apart by more of them.
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
			require.ErrorIs(t, err, vfs.Invalid)
			assert.Contains(t, err.Error(), "more than one")
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
	require.NoError(t, err)
	gone, turned := sub(t, followed.Root(), "gone"), sub(t, followed.Root(), "t")

	second := f.commit("master", f.fill(vfstest.Tree{"d/f": {Data: "new"}, "t": {Data: "a file"}}), first)
	for _, packed := range []bool{false, true} {
		if packed {
			gitCLI(t, f.dir, "", "pack-refs", "--all")
			gitCLI(t, f.dir, "", "repack", "-adq")
		}
		assert.Equal(t, "old", content(t, pinned.Root(), "d/f"))
		assert.Equal(t, first.String(), pinned.Revision().Commit)
		assert.Equal(t, "new", content(t, followed.Root(), "d/f"))
		assert.Equal(t, second.String(), followed.Revision().Commit)
		buf := make([]byte, 3)
		_, err = file.ReadAt(ctx, buf, 0)
		require.NoError(t, err)
		assert.Equal(t, "new", string(buf), "a file that was open is a place")
		require.ErrorIs(t, errorOf(gone.Stat(ctx)), vfs.Stale)
		require.ErrorIs(t, errorOf(turned.Stat(ctx)), vfs.Stale)
	}
	gitCLI(t, f.dir, "", "update-ref", "refs/heads/master", first.String())
	assert.Equal(t, "old", content(t, followed.Root(), "d/f"), "after packing too")

	gitCLI(t, f.dir, "", "update-ref", "-d", "refs/heads/master")
	require.ErrorIs(t, errorOf(followed.Root().Stat(ctx)), vfs.NotFound)
	assert.Equal(t, "old", content(t, pinned.Root(), "d/f"))
	f.branch("master", second)
	assert.Equal(t, "new", content(t, followed.Root(), "d/f"))

	_, err = git.OpenAmbient(f.dir, git.Options{Revision: first.String(), Follow: true})
	require.ErrorIs(t, err, vfs.Invalid)
}

func TestFollowedAndWritten(t *testing.T) {
	f := newFixture(t)
	first := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "old"}}))
	s := f.work(git.Options{Revision: "master", Follow: true})
	ctx := t.Context()
	put(t, s.Root(), "mine", "x")
	second := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "new"}}), first)
	assert.Equal(t, "old", content(t, s.Root(), "f"), "what is written keeps its base")
	_, err := s.Commit(ctx, onto(""))
	require.ErrorIs(t, err, vfs.Conflict)
	require.NoError(t, s.Discard(ctx))
	assert.Equal(t, "new", content(t, s.Root(), "f"))
	assert.Equal(t, second.String(), s.Revision().Commit)
	put(t, s.Root(), "mine", "x")
	id, err := s.Commit(ctx, onto(""))
	require.NoError(t, err)
	third := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "newer"}}), plumbing.NewHash(id))
	assert.Equal(t, "newer", content(t, s.Root(), "f"))
	assert.Equal(t, third.String(), s.Revision().Commit)
}

func TestFind(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q")
	deep := filepath.Join(dir, "a", "b")
	require.NoError(t, os.MkdirAll(deep, 0o777))
	for _, at := range []string{deep, filepath.Join(dir, "a"), dir} {
		repo, ok := git.FindAmbient(at)
		assert.True(t, ok)
		assert.Equal(t, dir, repo)
	}
	repo, ok := git.FindAmbient(filepath.Join(dir, ".git", "refs"))
	assert.True(t, ok)
	assert.Equal(t, filepath.Join(dir, ".git"), repo)
	_, err := git.OpenAmbient(deep, git.Options{})
	require.ErrorIs(t, err, vfs.NotFound, "only Find looks further up")
	_, err = git.OpenAmbient(filepath.Join(dir, "missing"), git.Options{})
	require.ErrorIs(t, err, vfs.NotFound)
}

func TestLayouts(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	first := f.commit("master", f.fill(vfstest.Tree{"f": {Data: "old"}}))
	f.commit("master", f.fill(vfstest.Tree{"f": {Data: "new"}}), first)
	opens := func(t *testing.T, dir, want string) work {
		t.Helper()
		s, err := openWork(dir, git.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		assert.Equal(t, want, content(t, s.Root(), "f"))
		return s
	}
	t.Run("Alternates", func(t *testing.T) {
		middle, last := filepath.Join(t.TempDir(), "middle"), filepath.Join(t.TempDir(), "last")
		gitCLI(t, f.dir, "", "clone", "-q", "--bare", "--shared", f.dir, middle)
		gitCLI(t, f.dir, "", "clone", "-q", "--bare", "--shared", middle, last)
		s := opens(t, last, "new")
		put(t, s.Root(), "f", "written")
		_, err := s.Commit(t.Context(), onto("other"))
		require.NoError(t, err)
		sound(t, last)
	})
	t.Run("Shallow", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "shallow")
		gitCLI(t, f.dir, "", "clone", "-q", "--depth", "1", "file://"+f.dir, dir)
		s := opens(t, dir, "new")
		_, err := git.OpenAmbient(dir, git.Options{Revision: "HEAD~1"})
		require.ErrorIs(t, err, vfs.NotFound)
		put(t, s.Root(), "f", "written")
		_, err = s.Commit(t.Context(), onto("other"))
		require.NoError(t, err)
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
		assert.Equal(t, git.Revision{Commit: first.String()}, s.Revision())
		put(t, s.Root(), "f", "x")
		_, err := s.Commit(t.Context(), onto(""))
		require.ErrorIs(t, err, vfs.Invalid, "no branch is named")
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
			require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf("[core]\nrepositoryformatversion = 1\n[%s]\n%s = %s\n", section, key, setting[1])), 0o666))
			_, err := git.OpenAmbient(dir, git.Options{})
			require.ErrorIs(t, err, vfs.Unsupported)
		})
	}
	t.Run("Sha256 by git itself", func(t *testing.T) {
		dir := t.TempDir()
		gitCLI(t, dir, "", "init", "-q", "--object-format=sha256")
		_, err := git.OpenAmbient(dir, git.Options{})
		require.ErrorIs(t, err, vfs.Unsupported)
	})
}

// Each root of a part is its holder's own.
func TestPart(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"a/b/c": {Data: "c"}, "f": {Data: "f"}}))
	s := f.open(git.Options{Revision: "main"})
	root, err := s.Part(t.Context(), "a/b")
	require.NoError(t, err)
	first, second := root(), root()
	require.NoError(t, first.Close())
	assert.Equal(t, []string{"c"}, names(t, second))
	assert.Equal(t, []string{"c"}, names(t, root()))
	for path, want := range map[string]vfs.Code{"a/none": vfs.NotFound, "f": vfs.NotDir, "f/x": vfs.NotDir, "../a": vfs.Invalid} {
		_, err := s.Part(t.Context(), path)
		require.ErrorIs(t, err, want, path)
	}
}

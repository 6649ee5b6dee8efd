package git_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
)

func TestCommitMovesOnlyWhatItSaw(t *testing.T) {
	f := newFixture(t)
	first := f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	put(t, s.Root(), "f", "mine")
	theirs := f.commit("main", f.fill(vfstest.Tree{"f": {Data: "theirs"}}), first)
	_, err := s.Commit(t.Context(), onto("main"))
	require.ErrorIs(t, err, vfs.Conflict)
	assert.Equal(t, "mine", content(t, s.Root(), "f"))
	o := onto("main")
	o.Old = theirs.String()
	_, err = s.Commit(t.Context(), o)
	require.ErrorIs(t, err, vfs.Conflict, "their commit is not dropped, though the host knows of it")
	assert.Contains(t, err.Error(), "mount it again")
	ahead := f.commit("ahead", f.fill(vfstest.Tree{"f": {Data: "ahead"}}), theirs)
	s = f.work(git.Options{Revision: "ahead"})
	put(t, s.Root(), "f", "mine")
	id, err := s.Commit(t.Context(), o)
	require.NoError(t, err, "what is upon %s holds all of the branch", ahead)
	ref, err := f.repo.Reference("refs/heads/main", true)
	require.NoError(t, err)
	assert.Equal(t, id, ref.Hash().String())

	lock := filepath.Join(f.dir, "refs", "heads", "main.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o666))
	put(t, s.Root(), "f", "again")
	_, err = s.Commit(t.Context(), onto("main"))
	require.ErrorIs(t, err, vfs.Busy)
	assert.FileExists(t, lock, "another's lock stays")
	require.NoError(t, os.Remove(lock))
	_, err = s.Commit(t.Context(), onto("main"))
	require.NoError(t, err)
	assert.NoFileExists(t, lock)
}

// Commits of git and of stores move one branch at the same time: each that succeeded is in
// its history.
func TestCommitBesideGit(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	var mu sync.Mutex
	var made []string
	add := func(id string) { mu.Lock(); defer mu.Unlock(); made = append(made, id) }
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 40 {
			old := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main"))
			id := strings.TrimSpace(gitCLI(t, f.dir, "theirs\n", "commit-tree", "-p", old, old+"^{tree}"))
			if gitCommand(f.dir, "update-ref", "refs/heads/main", id, old).Run() == nil {
				add(id)
			}
			if i%10 == 0 {
				gitCommand(f.dir, "pack-refs", "--all").Run()
			}
		}
	})
	for i := range 2 {
		wg.Go(func() {
			for range 40 {
				s, err := openWork(f.dir, git.Options{Revision: "main"})
				if !assert.NoError(t, err) {
					return
				}
				put(t, s.Root(), "count"+string(rune('a'+i)), s.Revision().Commit)
				id, err := s.Commit(t.Context(), onto("main"))
				if err == nil {
					add(id)
				} else if code := vfs.CodeOf(err); code != vfs.Conflict && code != vfs.Busy {
					t.Errorf("Commit: %v", err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	history := gitCLI(t, f.dir, "", "rev-list", "main")
	for _, id := range made {
		assert.Contains(t, history, id)
	}
	assert.Greater(t, len(made), 10)
	sound(t, f.dir)
}

func TestCommitLeavesWorkingTreesAlone(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("committed\n"), 0o666))
	gitCLI(t, dir, "", "add", "f")
	gitCLI(t, dir, "", "commit", "-qm", "first")
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, dir, "", "worktree", "add", "-q", "-b", "side", linked)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("being written\n"), 0o666))

	for _, at := range []string{dir, filepath.Join(dir, ".git"), linked, filepath.Join(linked, ".git")} {
		s, err := openWork(at, git.Options{})
		require.NoError(t, err, at)
		assert.Equal(t, "committed\n", content(t, s.Root(), "f"))
		want := "refs/heads/main"
		if strings.HasPrefix(at, linked) {
			want = "refs/heads/side"
		}
		assert.Equal(t, want, s.Revision().Ref)
		put(t, s.Root(), "f", "by "+filepath.Base(at))
		for _, branch := range []string{"main", "side", ""} {
			_, err = s.Commit(t.Context(), onto(branch))
			require.ErrorIs(t, err, vfs.Busy, "%s at %s", branch, at)
		}
		_, err = s.Commit(t.Context(), onto("agent/"+strings.TrimPrefix(filepath.Base(at), ".")+filepath.Base(filepath.Dir(at))))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	assert.Equal(t, " M f\n", gitCLI(t, dir, "", "status", "--porcelain"))
	assert.Empty(t, gitCLI(t, linked, "", "status", "--porcelain"))
	assert.Contains(t, gitCLI(t, dir, "", "reflog", "show", "agent/linked"+filepath.Base(filepath.Dir(linked))), "commit: a change")
	sound(t, dir)
}

// A write while a commit is being made is in it or left for the next, and never lost.
func TestWritesDuringCommits(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	root := s.Root()
	file, err := vfs.WalkFile(t.Context(), root, "src/a.go")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			_, err := vfs.Append(t.Context(), file, []byte("x"), vfs.If{})
			assert.NoError(t, err)
			put(t, root, "src/f"+string(rune('a'+i%7)), strings.Repeat("y", i))
		}
	})
	for range 20 {
		_, err := s.Commit(t.Context(), onto("main"))
		if err != nil && vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("Commit: %v", err)
		}
	}
	wg.Wait()
	want := "package a\n" + strings.Repeat("x", 300)
	assert.Equal(t, want, content(t, root, "src/a.go"))
	if s.Changed(t) {
		_, err = s.Commit(t.Context(), onto("main"))
		require.NoError(t, err)
	}
	assert.Equal(t, want, gitCLI(t, f.dir, "", "show", "main:src/a.go"))
	assert.Equal(t, strings.Repeat("y", 299), gitCLI(t, f.dir, "", "show", "main:src/f"+string(rune('a'+299%7))))
	sound(t, f.dir)
}

// TestWrittenWhileCommitting writes again what is being committed, in the moment in which
// the commit is made: the commit has the one, and the other waits for the next.
func TestWrittenWhileCommitting(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"a": {Data: "first"}, "b": {Data: "b"}, "d/c": {Data: "c"}, "e": {Data: "e"}}))
	s := f.work(git.Options{Revision: "main"})
	root := s.Root()
	put(t, root, "e", "......")
	e, err := vfs.WalkFile(t.Context(), root, "e")
	require.NoError(t, err)
	defer e.Close()
	_, err = e.WriteAt(t.Context(), []byte("second"), 0, vfs.If{})
	require.NoError(t, err)
	put(t, root, "a", "second")
	put(t, root, "b", "same")
	put(t, root, "d/c", "second")
	var wg sync.WaitGroup
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		wg.Go(func() {
			put(t, root, "a", "third")
			put(t, root, "d/c", "third")
			_, err := e.WriteAt(t.Context(), []byte("3"), 0, vfs.If{})
			assert.NoError(t, err)
		})
		return change()
	})
	_, err = s.Commit(ctx, onto("other"))
	require.NoError(t, err)
	wg.Wait()
	read := func(d vfs.Dir, path string) string {
		file, err := vfs.WalkFile(t.Context(), d, path)
		require.NoError(t, err)
		defer file.Close()
		b := make([]byte, 10)
		n, err := file.ReadAt(t.Context(), b, 0)
		require.ErrorIs(t, err, io.EOF)
		return string(b[:n])
	}
	for path, want := range map[string]string{"a": "third", "b": "same", "d/c": "third", "e": "3econd"} {
		assert.Equal(t, want, read(root, path), "what the store shows at %s", path)
	}
	committed := f.open(git.Options{Revision: "other"}).Root()
	for path, want := range map[string]string{"a": "second", "b": "same", "d/c": "second", "e": "second"} {
		assert.Equal(t, want, read(committed, path), "what was committed at %s", path)
	}
	changes, err := s.Changes(t.Context())
	require.NoError(t, err)
	assert.Len(t, changes, 3)
}

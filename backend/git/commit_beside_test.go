package git_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func TestCommitMovesOnlyWhatItSaw(t *testing.T) {
	f := newFixture(t)
	first := f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	put(t, s.Root(), "f", "mine")
	theirs := f.commit("main", f.fill(vfstest.Tree{"f": {Data: "theirs"}}), first)
	_, err := s.Commit(t.Context(), onto("main"))
	check.Is(t, "s.Commit", err, vfs.Conflict)
	if got, want := content(t, s.Root(), "f"), "mine"; got != want {
		t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
	}
	o := onto("main")
	o.Old = theirs.String()
	_, err = s.Commit(t.Context(), o)
	if !errors.Is(err, vfs.Conflict) {
		t.Fatalf("commit over what the host says it knows: %v, want %v", err, vfs.Conflict)
	}
	if got := err.Error(); !strings.Contains(got, "mount it again") {
		t.Errorf("err.Error() = %q, want it to contain %q", got, "mount it again")
	}
	ahead := f.commit("ahead", f.fill(vfstest.Tree{"f": {Data: "ahead"}}), theirs)
	s = f.work(git.Options{Revision: "ahead"})
	put(t, s.Root(), "f", "mine")
	id, err := s.Commit(t.Context(), o)
	if err != nil {
		t.Fatalf("commit on top of %s, which has all of the branch: %v", ahead, err)
	}
	ref, err := f.repo.Reference("refs/heads/main", true)
	check.OK(t, err)
	if got := ref.Hash().String(); got != id {
		t.Errorf("ref.Hash().String() = %q, want %q", got, id)
	}

	lock := filepath.Join(f.dir, "refs", "heads", "main.lock")
	check.OK(t, os.WriteFile(lock, nil, 0o666))
	put(t, s.Root(), "f", "again")
	_, err = s.Commit(t.Context(), onto("main"))
	check.Is(t, "s.Commit", err, vfs.Busy)
	if _, err := os.Lstat(lock); err != nil {
		t.Errorf("the lock of another process is gone: %v", err)
	}
	check.OK(t, os.Remove(lock))
	_, err = s.Commit(t.Context(), onto("main"))
	check.OK(t, err)
	if _, err := os.Lstat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock after a commit: %v, want it not to exist", err)
	}
}

// Git and stores commit to one branch at the same time. Each commit that succeeded is in
// the branch's history.
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
				if err != nil {
					t.Errorf("openWork: %v", err)
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
		if !strings.Contains(history, id) {
			t.Errorf("the history is %q, want it to contain %q", history, id)
		}
	}
	if got := len(made); got <= 10 {
		t.Errorf("len(made) = %d, want more than 10", got)
	}
	sound(t, f.dir)
}

func TestCommitLeavesWorkingTreesAlone(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "-b", "main")
	check.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte("committed\n"), 0o666))
	gitCLI(t, dir, "", "add", "f")
	gitCLI(t, dir, "", "commit", "-qm", "first")
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, dir, "", "worktree", "add", "-q", "-b", "side", linked)
	check.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte("being written\n"), 0o666))

	for _, at := range []string{dir, filepath.Join(dir, ".git"), linked, filepath.Join(linked, ".git")} {
		s, err := openWork(at, git.Options{})
		if err != nil {
			t.Fatalf("%s: openWork: %v", at, err)
		}
		if got, want := content(t, s.Root(), "f"), "committed\n"; got != want {
			t.Errorf(`content(s.Root(), "f") = %q, want %q`, got, want)
		}
		want := "refs/heads/main"
		if strings.HasPrefix(at, linked) {
			want = "refs/heads/side"
		}
		if got := s.Revision().Ref; got != want {
			t.Errorf("s.Revision().Ref = %q, want %q", got, want)
		}
		put(t, s.Root(), "f", "by "+filepath.Base(at))
		for _, branch := range []string{"main", "side", ""} {
			_, err = s.Commit(t.Context(), onto(branch))
			check.Is(t, fmt.Sprintf("%s at %s", branch, at), err, vfs.Busy)
		}
		_, err = s.Commit(t.Context(), onto("agent/"+strings.TrimPrefix(filepath.Base(at), ".")+filepath.Base(filepath.Dir(at))))
		check.OK(t, err)
		check.OK(t, s.Close())
	}
	if got, want := gitCLI(t, dir, "", "status", "--porcelain"), " M f\n"; got != want {
		t.Errorf("git status --porcelain = %q, want %q", got, want)
	}
	if got := gitCLI(t, linked, "", "status", "--porcelain"); got != "" {
		t.Errorf("git status --porcelain = %q, want nothing", got)
	}
	if got := gitCLI(t, dir, "", "reflog", "show", "agent/linked"+filepath.Base(filepath.Dir(linked))); !strings.Contains(got, "commit: a change") {
		t.Errorf("git reflog show = %q, want it to contain %q", got, "commit: a change")
	}
	sound(t, dir)
}

// A write during a commit goes into that commit or the next one. It is never lost.
func TestWritesDuringCommits(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	root := s.Root()
	file, err := vfs.WalkFile(t.Context(), root, "src/a.go")
	check.OK(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			_, err := vfs.Append(t.Context(), file, []byte("x"), vfs.If{})
			if err != nil {
				t.Errorf("vfs.Append: %v", err)
			}
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
	if got := content(t, root, "src/a.go"); got != want {
		t.Errorf(`content(root, "src/a.go") = %q, want %q`, got, want)
	}
	if s.Changed(t) {
		_, err = s.Commit(t.Context(), onto("main"))
		check.OK(t, err)
	}
	if got := gitCLI(t, f.dir, "", "show", "main:src/a.go"); got != want {
		t.Errorf("git show main:src/a.go = %q, want %q", got, want)
	}
	if got, want := gitCLI(t, f.dir, "", "show", "main:src/f"+string(rune('a'+299%7))), strings.Repeat("y", 299); got != want {
		t.Errorf("the last file that was written = %q, want %q", got, want)
	}
	sound(t, f.dir)
}

// TestWrittenWhileCommitting writes files while they are being committed. The commit has
// what was there before, and the new content waits for the next commit.
func TestWrittenWhileCommitting(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"a": {Data: "first"}, "b": {Data: "b"}, "d/c": {Data: "c"}, "e": {Data: "e"}}))
	s := f.work(git.Options{Revision: "main"})
	root := s.Root()
	put(t, root, "e", "......")
	e, err := vfs.WalkFile(t.Context(), root, "e")
	check.OK(t, err)
	defer e.Close()
	_, err = e.WriteAt(t.Context(), []byte("second"), 0, vfs.If{})
	check.OK(t, err)
	put(t, root, "a", "second")
	put(t, root, "b", "same")
	put(t, root, "d/c", "second")
	var wg sync.WaitGroup
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		wg.Go(func() {
			put(t, root, "a", "third")
			put(t, root, "d/c", "third")
			_, err := e.WriteAt(t.Context(), []byte("3"), 0, vfs.If{})
			if err != nil {
				t.Errorf("e.WriteAt: %v", err)
			}
		})
		return change()
	})
	_, err = s.Commit(ctx, onto("other"))
	check.OK(t, err)
	wg.Wait()
	read := func(d vfs.Dir, path string) string {
		file, err := vfs.WalkFile(t.Context(), d, path)
		check.OK(t, err)
		defer file.Close()
		b := make([]byte, 10)
		n, err := file.ReadAt(t.Context(), b, 0)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("file.ReadAt: %v, want %v", err, io.EOF)
		}
		return string(b[:n])
	}
	for path, want := range map[string]string{"a": "third", "b": "same", "d/c": "third", "e": "3econd"} {
		if got := read(root, path); got != want {
			t.Errorf("what the store shows at %s: %q, want %q", path, got, want)
		}
	}
	committed := f.open(git.Options{Revision: "other"}).Root()
	for path, want := range map[string]string{"a": "second", "b": "same", "d/c": "second", "e": "second"} {
		if got := read(committed, path); got != want {
			t.Errorf("what was committed at %s: %q, want %q", path, got, want)
		}
	}
	changes, err := s.Changes(t.Context())
	check.OK(t, err)
	if len(changes) != 3 {
		t.Errorf("changes = %v, want 3 of them", changes)
	}
}

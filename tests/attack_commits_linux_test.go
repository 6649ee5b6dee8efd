package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/client"
	"capd/client/console"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// TestAttackCommits: guests write, move and remove while the host commits and applies. What
// was committed or applied, and what waits, is together what guests were told is written.
// Nothing that is withheld, or that git refuses, is in any commit.
func TestAttackCommits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	t.Run("commit", commitsBeside)
	t.Run("apply", appliesBeside)
}

// git runs git in a repository.
func (w *estate) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", append([]string{"-C", w.path("repo")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// commitWriter writes files of its own below at, moves directories, and tries what is refused.
func commitWriter(ctx context.Context, who int, root *client.Dir, at string, told *written, over *atomic.Bool, tries *atomic.Int64) {
	random := rand.New(rand.NewPCG(uint64(who), 21))
	forbidden := []string{".env", ".ssh/id", "x.pem", ".git/config", ".GIT", "git~1", "a/.git", "a/.git ", "a/.g\u200cit", "module/x", "lib/module/x"}
	for n := 1; !over.Load() && n < times(300, 800); n++ {
		in := at + "/" + string("abc"[random.IntN(3)])
		name := fmt.Sprintf("f-%d-%d", who, n)
		switch random.IntN(8) {
		case 0, 1, 2:
			data := strings.Repeat(fmt.Sprintf("%d of %d\n", n, who), 1+random.IntN(2000))
			if _, err := root.Put(ctx, in+"/"+name, strings.NewReader(data), vfs.If{}); err == nil {
				told.file(name, data)
			}
		case 3:
			counter := fmt.Sprintf("counter-%d", who)
			if _, err := root.Put(ctx, at+"/"+counter, strings.NewReader(fmt.Sprintf("%08d", n)), vfs.If{}); err == nil {
				told.count(counter, n)
			}
		case 4: // directories change places
			_ = root.Move(ctx, in, root, fmt.Sprintf("%s/m-%d", at, who), vfs.If{}, vfs.If{})
			_ = root.Move(ctx, fmt.Sprintf("%s/m-%d", at, who), root, in, vfs.If{}, vfs.If{})
			if d, err := root.CreateDir(ctx, in); err == nil {
				d.Close()
			}
		case 5:
			tries.Add(1)
			bad := forbidden[random.IntN(len(forbidden))]
			if _, err := root.Put(ctx, at+"/"+bad, strings.NewReader(secret), vfs.If{}); err == nil {
				told.file("forbidden "+bad, "")
			}
			_ = root.Move(ctx, in+"/"+name, root, at+"/"+bad, vfs.If{}, vfs.If{})
		case 6: // with the submodule in it
			_ = root.Move(ctx, at+"/lib", root, fmt.Sprintf("%s/lib-%d", at, who), vfs.If{}, vfs.If{})
			_ = root.RemovePath(ctx, fmt.Sprintf("%s/lib-%d/module", at, who), vfs.If{})
			_ = root.Move(ctx, fmt.Sprintf("%s/lib-%d", at, who), root, at+"/lib", vfs.If{}, vfs.If{})
		case 7: // two names that some file systems take for one
			_, _ = root.Put(ctx, fmt.Sprintf("%s/Case-%d", in, who), strings.NewReader(name), vfs.If{})
			_, _ = root.Put(ctx, fmt.Sprintf("%s/case-%d", in, who), strings.NewReader(name), vfs.If{})
		}
	}
}

// beside runs three writers in the mount at, and do until it has succeeded n times and the writers have
// tried what is refused 10 times.
func beside(t *testing.T, host *running, at string, n int, do func(i int) bool) (told *written) {
	t.Helper()
	told = &written{files: map[string]string{}, counts: map[string]int{}, logs: map[string][]string{}}
	var over atomic.Bool
	var tries atomic.Int64
	var writers sync.WaitGroup
	for who := range 3 {
		root := host.guest()
		writers.Go(func() { commitWriter(context.Background(), who, root, at, told, &over, &tries) })
	}
	attacks.add(t, toll{cases: 1, names: 11})
	begun := time.Now()
	for i, done := 0, 0; (done < n || tries.Load() < 10) && !t.Failed() && time.Since(begun) < raceTime; i++ {
		attacks.tried(t, false)
		if do(i) {
			done++
		}
	}
	over.Store(true)
	writers.Wait()
	attacks.add(t, toll{tries: tries.Load()})
	for name := range told.files {
		if bad, is := strings.CutPrefix(name, "forbidden "); is {
			if delete(told.files, name); at == "over" && strings.Contains(strings.ToLower(bad), "g") && !strings.HasSuffix(bad, ".git/config") {
				continue // a name like any other there
			}
			attacks.escape(t)
			t.Errorf("%s was written", name)
		}
	}
	return told
}

func commitsBeside(t *testing.T) {
	w := moveEstate(t)
	ok(t, os.MkdirAll(w.path("repo/lib"), 0o755))
	w.git("init", "-q", "-b", "main")
	for _, name := range []string{"a/old", "b/old", "c/old", "lib/x", "README"} {
		w.write("repo/"+name, name)
	}
	ok(t, os.Symlink("../README", w.path("repo/lib/l")))
	w.git("add", ".")
	w.git("update-index", "--add", "--cacheinfo", "160000,1234567890123456789012345678901234567890,lib/module")
	w.git("commit", "-q", "-m", "first")
	w.git("branch", "work")
	w.write("capd.yaml", "mounts:\n  - path: work\n    url: git:repo?writable#work\n    deny: ['**/.env', '**/.ssh/**', '**/*.pem']\nguests:\n  - name: guest\n")
	host := w.serve()
	fs, err := host.console().VirtualFs(t.Context())
	ok(t, err)
	defer fs.Close()
	commit := func() error {
		_, err := fs.Commit(t.Context(), "work", operator.Commit{Message: "beside", Author: "Ada", Email: "ada@example.org"})
		return err
	}
	told := beside(t, host, "work", times(3, 10), func(i int) bool {
		if i%5 == 4 { // some of it is let go; nobody was told to keep that
			if _, err := fs.Revert(t.Context(), "work", []string{"nothing"}); err != nil && vfs.CodeOf(err) != vfs.NotFound && vfs.CodeOf(err) != vfs.Invalid {
				t.Errorf("revert: %v", err)
			}
		}
		return is(t, "commit", commit(), "ok invalid")
	})
	told.check(t, host.guest().SubDir("work"))
	is(t, "the last commit", commit(), "ok invalid")
	waits(t, fs, "work")
	shown := map[string]string{}
	collect(t, host.guest().SubDir("work"), "", func(path, data string) { shown[path] = data })
	host.end()
	w.git("fsck", "--strict")
	var kept []string
	for _, path := range strings.Split(strings.TrimSpace(w.git("ls-tree", "-r", "-z", "--name-only", "work")), "\x00") {
		if path != "" && !strings.HasSuffix(path, "/l") && !strings.HasSuffix(path, "/module") {
			kept = append(kept, path)
		}
	}
	if len(kept) != len(shown) {
		t.Errorf("%d files are committed, %d were shown", len(kept), len(shown))
	}
	out := filepath.Join(w.dir, "out")
	ok(t, os.Mkdir(out, 0o755))
	w.git("--work-tree="+out, "checkout", "-f", "work", "--", ".")
	for path, data := range shown {
		if b, err := os.ReadFile(filepath.Join(out, path)); err != nil || string(b) != data {
			t.Errorf("%s is committed with %d bytes (%v), and was shown with %d", path, len(b), err, len(data))
		}
	}
	commits := strings.Fields(w.git("rev-list", "work"))
	for _, id := range commits {
		tree := w.git("ls-tree", "-r", id)
		if !strings.Contains(tree, "160000") {
			t.Errorf("the submodule is not in %s", id)
		}
		for _, bad := range []string{".env", ".ssh", ".pem", ".git", ".GIT", "git~1"} {
			if strings.Contains(tree, bad) {
				attacks.escape(t)
				t.Errorf("%s is in %s", bad, id)
			}
		}
	}
	t.Logf("%d commits; %d files", len(commits), len(shown))
}

// waits checks that nothing waits at a mount, apart from directories.
func waits(t *testing.T, fs *console.VirtualFs, path string) {
	t.Helper()
	_, err := fs.Diff(t.Context(), path, operator.DiffOptions{}, "", func(c diff.Change) bool {
		if c.Is.Kind != vfs.DirKind {
			t.Errorf("%s still waits", c.Path)
		}
		return true
	})
	ok(t, err)
}

// appliesBeside applies just what was reviewed, again and again.
func appliesBeside(t *testing.T) {
	w := moveEstate(t)
	for _, name := range []string{"a/old", "b/old", "c/old", "lib/x"} {
		w.write("lower/"+name, name)
	}
	host := w.serve()
	fs, err := host.console().VirtualFs(t.Context())
	ok(t, err)
	defer fs.Close()
	late := 0
	told := beside(t, host, "over", times(3, 10), func(i int) bool {
		var seen []string
		moved := false // what a directory holds counts, too, when it was moved
		review, err := fs.Diff(t.Context(), "over", operator.DiffOptions{}, "", func(c diff.Change) bool {
			seen, moved = append(seen, c.Path), moved || c.From != ""
			return true
		})
		if !is(t, "diff", err, "ok busy") || err != nil {
			return false
		}
		o := operator.ApplyOptions{Guarded: true} // whatever there is
		if i%2 == 0 {
			o.If = review
		}
		a, err := fs.Apply(t.Context(), "over", o, nil)
		if err == nil && i%2 == 0 && !moved && a.Changes != len(seen) {
			attacks.escape(t)
			t.Errorf("%d changes were reviewed, %d applied: %q", len(seen), a.Changes, seen)
		}
		if vfs.CodeOf(err) == vfs.Conflict {
			late++
		}
		return is(t, "apply", err, "ok conflict") && err == nil
	})
	root := host.guest()
	told.check(t, root.SubDir("over"))
	_, err = fs.Apply(t.Context(), "over", operator.ApplyOptions{Guarded: true}, nil)
	ok(t, err)
	waits(t, fs, "over")
	shown := map[string]string{}
	collect(t, root.SubDir("over"), "", func(path, data string) { shown[path] = data })
	var kept []string
	ok(t, filepath.WalkDir(w.path("lower"), func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.path("lower"), path)
		if err == nil && !d.IsDir() && !strings.HasPrefix(rel, ".capd") {
			kept = append(kept, rel)
			if b, _ := os.ReadFile(path); string(b) != shown[rel] {
				t.Errorf("%s has %d bytes beneath, and %d are shown", rel, len(b), len(shown[rel]))
			}
		}
		return err
	}))
	if len(kept) != len(shown) {
		t.Errorf("%d files beneath, %d are shown", len(kept), len(shown))
	}
	if i := slices.IndexFunc(kept, func(path string) bool { return strings.Contains(path, ".env") || strings.Contains(path, ".pem") }); i >= 0 {
		attacks.escape(t)
		t.Errorf("%s was applied", kept[i])
	}
	t.Logf("%d reviews were too late; %d files", late, len(shown))
	host.end()
}

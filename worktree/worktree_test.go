package worktree_test

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/backend/git"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
	"capd/worktree"
)

// git runs git in dir, with no configuration but its own.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository with a branch called work, which is not checked out.
func repository(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	for path, data := range map[string]string{"README": "read\n", "dir/a": "a\n", "dir/b/c": "c\n", "only/one": "1\n", "run": "#!\n"} {
		check.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o777))
		check.OK(t, os.WriteFile(filepath.Join(dir, path), []byte(data), 0o666))
	}
	check.OK(t, os.Chmod(filepath.Join(dir, "run"), 0o777))
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "first")
	gitIn(t, dir, "branch", "work")
	return dir
}

// open opens the branch work of a repository with changes kept in upper.
func open(t testing.TB, dir, upper string) *worktree.Tree {
	t.Helper()
	repo, err := git.OpenAmbient(dir, git.Options{Revision: "work", Writable: true})
	check.OK(t, err)
	store, err := physical.OpenAmbient(upper, physical.Options{})
	check.OK(t, err)
	tree, err := worktree.New(t.Context(), repo, store.Root())
	check.OK(t, err)
	t.Cleanup(func() { tree.Close(); store.Close() })
	return tree
}

func put(t testing.TB, tree *worktree.Tree, path, data string) {
	t.Helper()
	_, err := vfs.Put(t.Context(), tree.Root(), path, strings.NewReader(data), vfs.If{})
	check.OK(t, err)
}

func sub(t testing.TB, tree *worktree.Tree, path string) vfs.Dir {
	t.Helper()
	d, err := vfs.WalkDir(t.Context(), tree.Root(), path)
	check.OK(t, err)
	return d
}

func move(t testing.TB, tree *worktree.Tree, from, to string) {
	t.Helper()
	root := tree.Root()
	check.OK(t, root.Rename(t.Context(), from, root, to, vfs.If{}, vfs.If{}))
}

func commit(ctx context.Context, tree *worktree.Tree) (string, error) {
	return tree.Commit(ctx, git.CommitOptions{Message: "a change", Author: git.Author{Name: "A", Email: "a@b"}})
}

// changes returns the kinds of the changes by their paths.
func changes(t testing.TB, tree *worktree.Tree) map[string]diff.Kind {
	t.Helper()
	all, _, err := tree.Diff(t.Context())
	check.OK(t, err)
	kinds := map[string]diff.Kind{}
	for _, c := range all {
		kinds[c.Path] = c.Kind
	}
	changed, err := tree.Changed(t.Context())
	check.OK(t, err)
	if want := len(kinds) > 0; changed != want {
		t.Errorf("changed = %v, want %v", changed, want)
	}
	return kinds
}

func listed(t testing.TB, dir string) string {
	t.Helper()
	gitIn(t, dir, "fsck", "--strict", "--full", "--no-dangling")
	return gitIn(t, dir, "ls-tree", "-r", "--format=%(objectmode) %(path)", "work")
}

// A part is let go, also of a directory that moved, and the rest is committed.
func TestRevertOfAPart(t *testing.T) {
	dir := repository(t)
	tree := open(t, dir, t.TempDir())
	ctx := t.Context()
	put(t, tree, "README", "written\n")
	put(t, tree, "new", "new\n")
	put(t, tree, "run", "replaced\n")
	move(t, tree, "dir", "moved")
	put(t, tree, "moved/b/c", "written\n")
	check.OK(t, sub(t, tree, "moved").Remove(ctx, "a", vfs.If{}))
	want := map[string]diff.Kind{"README": diff.Modified, "new": diff.Added, "run": diff.Modified,
		"moved": diff.Renamed, "moved/a": diff.Removed, "moved/b/c": diff.Modified}
	if got := changes(t, tree); !reflect.DeepEqual(got, want) {
		t.Errorf("changes(tree) = %v, want %v", got, want)
	}
	check.Is(t, "a move goes back at both of its places or not at all", tree.Revert(ctx, []string{"dir"}), vfs.Invalid)
	if got := changes(t, tree); !reflect.DeepEqual(got, want) {
		t.Errorf("changes(tree) = %v, want %v", got, want)
	}
	check.OK(t, tree.Revert(ctx, []string{"README"}))
	check.OK(t, tree.Revert(ctx, []string{"moved/b"}))
	delete(want, "README")
	delete(want, "moved/b/c")
	if got := changes(t, tree); !reflect.DeepEqual(got, want) {
		t.Errorf("changes(tree) = %v, want %v", got, want)
	}
	_, err := commit(ctx, tree)
	check.OK(t, err)
	if got := changes(t, tree); len(got) != 0 {
		t.Errorf("changes(tree) = %v, want nothing", got)
	}
	if got, want := listed(t, dir), "100644 README\n100644 moved/b/c\n100644 new\n100644 only/one\n100755 run"; got != want {
		t.Errorf("listed(dir) = %q, want %q", got, want)
	}
	if got, want := gitIn(t, dir, "show", "work:moved/b/c"), "c"; got != want {
		t.Errorf("git show work:moved/b/c = %q, want %q", got, want)
	}

	move(t, tree, "moved", "dir")
	check.OK(t, tree.Revert(ctx, []string{"moved", "dir"}))
	if got := changes(t, tree); len(got) != 0 {
		t.Errorf("changes(tree) = %v, want nothing", got)
	}
	_, err = commit(ctx, tree)
	check.Is(t, "commit", err, vfs.Invalid)
}

// What waits in a store that lasts is there when the tree is opened again, and can be
// committed then.
func TestKept(t *testing.T) {
	dir, upper := repository(t), t.TempDir()
	tree := open(t, dir, upper)
	put(t, tree, "run", "replaced\n")
	move(t, tree, "dir", "moved")
	_, err := tree.Root().Mkdir(t.Context(), "hollow")
	check.OK(t, err)
	waiting := changes(t, tree)
	if len(waiting) != 2 {
		t.Fatalf("waiting = %v, want 2 of them", waiting)
	}
	check.OK(t, tree.Close())

	tree = open(t, dir, upper)
	if got := changes(t, tree); !reflect.DeepEqual(got, waiting) {
		t.Errorf("changes(tree) = %v, want %v", got, waiting)
	}
	_, err = commit(t.Context(), tree)
	check.OK(t, err)
	check.OK(t, tree.Close())
	if got, want := listed(t, dir), "100644 README\n100644 moved/a\n100644 moved/b/c\n100644 only/one\n100755 run"; got != want {
		t.Errorf("listed(dir) = %q, want %q", got, want)
	}

	tree = open(t, dir, upper)
	if got := changes(t, tree); len(got) != 0 {
		t.Errorf("changes(tree) = %v, want nothing", got)
	}
	sub(t, tree, "hollow")
	sub(t, tree, "moved/b")
}

// A change to what another has committed since is not committed over it.
func TestKeptBesideCommits(t *testing.T) {
	dir, upper := repository(t), t.TempDir()
	tree := open(t, dir, upper)
	put(t, tree, "README", "mine\n")
	put(t, tree, "dir/a", "mine\n")
	check.OK(t, tree.Close())
	other := open(t, dir, t.TempDir())
	put(t, other, "README", "theirs\n")
	put(t, other, "dir/b/c", "theirs\n")
	_, err := commit(t.Context(), other)
	check.OK(t, err)

	tree = open(t, dir, upper)
	before := gitIn(t, dir, "rev-parse", "work")
	_, err = commit(t.Context(), tree)
	check.Is(t, "commit", err, vfs.Conflict)
	if err == nil || !strings.Contains(err.Error(), "README") {
		t.Fatalf("commit: %v, want it to contain %q", err, "README")
	}
	if got := gitIn(t, dir, "rev-parse", "work"); got != before {
		t.Errorf("git rev-parse work = %q, want %q", got, before)
	}
	check.OK(t, tree.Revert(t.Context(), []string{"README"}))
	_, err = commit(t.Context(), tree)
	check.OK(t, err)
	for path, want := range map[string]string{"README": "theirs", "dir/a": "mine", "dir/b/c": "theirs"} {
		if got := gitIn(t, dir, "show", "work:"+path); got != want {
			t.Errorf("%s: git show = %q, want %q", path, got, want)
		}
	}
}

// A directory that a guest has open, and that the followed branch lost, does not come
// back with a commit.
func TestOpenDirectoryThatWent(t *testing.T) {
	dir := repository(t)
	repo, err := git.OpenAmbient(dir, git.Options{Revision: "work", Follow: true, Writable: true})
	check.OK(t, err)
	tree, err := worktree.New(t.Context(), repo, memory.New(memory.Limits{}).Root())
	check.OK(t, err)
	defer tree.Close()
	held := sub(t, tree, "dir/b")
	gitIn(t, dir, "checkout", "-q", "work")
	gitIn(t, dir, "rm", "-qr", "dir")
	gitIn(t, dir, "commit", "-qm", "less")
	gitIn(t, dir, "checkout", "-q", "main")
	put(t, tree, "README", "written")
	_, err = commit(t.Context(), tree)
	check.OK(t, err)
	_, err = tree.Root().Lookup(t.Context(), "dir")
	check.Is(t, "tree.Root().Lookup", err, vfs.NotFound)
	_, err = held.Stat(t.Context())
	check.Is(t, "held.Stat", err, vfs.Stale)
}

// A process that dies when the branch has the commit, and its own record does not, finds
// out at the next start.
func TestCutShort(t *testing.T) {
	dir, upper, copied := repository(t), t.TempDir(), filepath.Join(t.TempDir(), "upper")
	tree := open(t, dir, upper)
	move(t, tree, "dir", "moved")
	put(t, tree, "moved/a", "written\n")
	check.OK(t, sub(t, tree, "only").Remove(t.Context(), "one", vfs.If{}))
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		check.OK(t, os.CopyFS(copied, os.DirFS(upper)))
		return change()
	})
	waiting := changes(t, tree)
	before := open(t, dir, t.TempDir()) // a commit that was not made
	_, err := commit(ctx, tree)
	check.OK(t, err)

	again := open(t, dir, copied)
	if got := changes(t, again); len(got) != 0 {
		t.Errorf("changes(again) = %v, want nothing", got)
	}
	sub(t, again, "moved/b")
	_, err = again.Root().Lookup(t.Context(), "dir")
	check.Is(t, "again.Root().Lookup", err, vfs.NotFound)
	for e, err := range sub(t, again, "only").List(t.Context()) {
		t.Error(e, err, "in a directory that became empty")
	}
	if len(waiting) != 3 {
		t.Fatalf("waiting = %v, want 3 of them", waiting)
	}
	if got := changes(t, before); len(got) != 0 {
		t.Errorf("changes(before) = %v, want nothing", got)
	}
}

// A commit reads large contents piece by piece, and what it does while others have to
// wait is short.
func TestLargeCommit(t *testing.T) {
	size, most := int64(64<<20), int64(16<<20)
	if os.Getenv("CAPD_CI") != "" {
		size = 200 << 20
	}
	if testing.Short() {
		t.Skip("writes a large file")
	}
	dir := repository(t)
	tree := open(t, dir, t.TempDir())
	h := sha256.New()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, peak := watch(t)
	_, err := tree.Root().Replace(t.Context(), "large", io.TeeReader(io.LimitReader(&lines{}, size), h), vfs.If{})
	check.OK(t, err)
	_, err = commit(t.Context(), tree)
	check.OK(t, err)
	stop()
	grown := int64(peak.Load()) - int64(before.HeapInuse)
	if grown >= most {
		t.Errorf("the heap grew by %d bytes, want less than %d", grown, most)
	}
	t.Logf("the heap grew by %d MiB for %d MiB", grown>>20, size>>20)
	file, err := vfs.WalkFile(t.Context(), tree.Root(), "large")
	check.OK(t, err)
	v, err := vfs.VersionOf(t.Context(), file)
	check.OK(t, err)
	if want := vfs.Version(h.Sum(nil)); v != want {
		t.Errorf("the version is %v, want %v", v, want)
	}
	listed(t, dir)
}

// lines reads as lines that compress well.
type lines struct{ n int }

func (l *lines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "one line as every other\n"[l.n%24]
		l.n++
	}
	return len(p), nil
}

// watch notes the most that the heap uses until stop.
func watch(t *testing.T) (stop func(), peak *atomic.Uint64) {
	peak = &atomic.Uint64{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		var m runtime.MemStats
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }, peak
}

package worktree_test

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/diff"
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
	require.NoErrorf(t, err, "git %s: %s", strings.Join(args, " "), out)
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
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(data), 0o666))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "run"), 0o777))
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "first")
	gitIn(t, dir, "branch", "work")
	return dir
}

// open opens the branch work of a repository with changes kept in upper.
func open(t testing.TB, dir, upper string) *worktree.Tree {
	t.Helper()
	repo, err := git.OpenAmbient(dir, git.Options{Revision: "work", Writable: true})
	require.NoError(t, err)
	store, err := physical.OpenAmbient(upper, physical.Options{})
	require.NoError(t, err)
	tree, err := worktree.New(t.Context(), repo, store.Root())
	require.NoError(t, err)
	t.Cleanup(func() { tree.Close(); store.Close() })
	return tree
}

func put(t testing.TB, tree *worktree.Tree, path, data string) {
	t.Helper()
	_, err := vfs.Put(t.Context(), tree.Root(), path, strings.NewReader(data), vfs.If{})
	require.NoError(t, err)
}

func sub(t testing.TB, tree *worktree.Tree, path string) vfs.Dir {
	t.Helper()
	d, err := vfs.WalkDir(t.Context(), tree.Root(), path)
	require.NoError(t, err)
	return d
}

func move(t testing.TB, tree *worktree.Tree, from, to string) {
	t.Helper()
	root := tree.Root()
	require.NoError(t, root.Rename(t.Context(), from, root, to, vfs.If{}, vfs.If{}))
}

func commit(ctx context.Context, tree *worktree.Tree) (string, error) {
	return tree.Commit(ctx, git.CommitOptions{Message: "a change", Author: git.Author{Name: "A", Email: "a@b"}})
}

// changes returns the kinds of the changes by their paths.
func changes(t testing.TB, tree *worktree.Tree) map[string]diff.Kind {
	t.Helper()
	all, _, err := tree.Diff(t.Context())
	require.NoError(t, err)
	kinds := map[string]diff.Kind{}
	for _, c := range all {
		kinds[c.Path] = c.Kind
	}
	changed, err := tree.Changed(t.Context())
	require.NoError(t, err)
	assert.Equal(t, len(kinds) > 0, changed)
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
	require.NoError(t, sub(t, tree, "moved").Remove(ctx, "a", vfs.If{}))
	want := map[string]diff.Kind{"README": diff.Modified, "new": diff.Added, "run": diff.Modified,
		"dir/a": diff.Removed, "dir/b/c": diff.Removed, "moved/b/c": diff.Added}
	assert.Equal(t, want, changes(t, tree))
	require.ErrorIs(t, tree.Revert(ctx, []string{"dir"}), vfs.Invalid, "a move goes back at both of its places or not at all")
	assert.Equal(t, want, changes(t, tree))
	require.NoError(t, tree.Revert(ctx, []string{"README"}))
	require.NoError(t, tree.Revert(ctx, []string{"moved/b"}))
	delete(want, "README")
	assert.Equal(t, want, changes(t, tree))
	_, err := commit(ctx, tree)
	require.NoError(t, err)
	assert.Empty(t, changes(t, tree))
	assert.Equal(t, "100644 README\n100644 moved/b/c\n100644 new\n100644 only/one\n100755 run", listed(t, dir))
	assert.Equal(t, "c", gitIn(t, dir, "show", "work:moved/b/c"))

	move(t, tree, "moved", "dir")
	require.NoError(t, tree.Revert(ctx, []string{"moved", "dir"}))
	assert.Empty(t, changes(t, tree))
	_, err = commit(ctx, tree)
	require.ErrorIs(t, err, vfs.Invalid)
}

// What waits in a store that lasts is there when the tree is opened again, and can be
// committed then.
func TestKept(t *testing.T) {
	dir, upper := repository(t), t.TempDir()
	tree := open(t, dir, upper)
	put(t, tree, "run", "replaced\n")
	move(t, tree, "dir", "moved")
	_, err := tree.Root().Mkdir(t.Context(), "hollow")
	require.NoError(t, err)
	waiting := changes(t, tree)
	require.Len(t, waiting, 5)
	require.NoError(t, tree.Close())

	tree = open(t, dir, upper)
	assert.Equal(t, waiting, changes(t, tree))
	_, err = commit(t.Context(), tree)
	require.NoError(t, err)
	require.NoError(t, tree.Close())
	assert.Equal(t, "100644 README\n100644 moved/a\n100644 moved/b/c\n100644 only/one\n100755 run", listed(t, dir))

	tree = open(t, dir, upper)
	assert.Empty(t, changes(t, tree))
	sub(t, tree, "hollow")
	sub(t, tree, "moved/b")
}

// A change to what another has committed since is not committed over it.
func TestKeptBesideCommits(t *testing.T) {
	dir, upper := repository(t), t.TempDir()
	tree := open(t, dir, upper)
	put(t, tree, "README", "mine\n")
	put(t, tree, "dir/a", "mine\n")
	require.NoError(t, tree.Close())
	other := open(t, dir, t.TempDir())
	put(t, other, "README", "theirs\n")
	put(t, other, "dir/b/c", "theirs\n")
	_, err := commit(t.Context(), other)
	require.NoError(t, err)

	tree = open(t, dir, upper)
	before := gitIn(t, dir, "rev-parse", "work")
	_, err = commit(t.Context(), tree)
	require.ErrorIs(t, err, vfs.Conflict)
	require.ErrorContains(t, err, "README")
	assert.Equal(t, before, gitIn(t, dir, "rev-parse", "work"))
	require.NoError(t, tree.Revert(t.Context(), []string{"README"}))
	_, err = commit(t.Context(), tree)
	require.NoError(t, err)
	for path, want := range map[string]string{"README": "theirs", "dir/a": "mine", "dir/b/c": "theirs"} {
		assert.Equal(t, want, gitIn(t, dir, "show", "work:"+path), path)
	}
}

// A directory that a guest has open, and that the followed branch lost, does not come
// back with a commit.
func TestOpenDirectoryThatWent(t *testing.T) {
	dir := repository(t)
	repo, err := git.OpenAmbient(dir, git.Options{Revision: "work", Follow: true, Writable: true})
	require.NoError(t, err)
	tree, err := worktree.New(t.Context(), repo, memory.New(memory.Limits{}).Root())
	require.NoError(t, err)
	defer tree.Close()
	held := sub(t, tree, "dir/b")
	gitIn(t, dir, "checkout", "-q", "work")
	gitIn(t, dir, "rm", "-qr", "dir")
	gitIn(t, dir, "commit", "-qm", "less")
	gitIn(t, dir, "checkout", "-q", "main")
	put(t, tree, "README", "written")
	_, err = commit(t.Context(), tree)
	require.NoError(t, err)
	_, err = tree.Root().Lookup(t.Context(), "dir")
	require.ErrorIs(t, err, vfs.NotFound)
	_, err = held.Stat(t.Context())
	require.ErrorIs(t, err, vfs.Stale)
}

// A process that dies when the branch has the commit, and its own record does not, finds
// out at the next start.
func TestCutShort(t *testing.T) {
	dir, upper, copied := repository(t), t.TempDir(), filepath.Join(t.TempDir(), "upper")
	tree := open(t, dir, upper)
	move(t, tree, "dir", "moved")
	put(t, tree, "moved/a", "written\n")
	require.NoError(t, sub(t, tree, "only").Remove(t.Context(), "one", vfs.If{}))
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		require.NoError(t, os.CopyFS(copied, os.DirFS(upper)))
		return change()
	})
	waiting := changes(t, tree)
	before := open(t, dir, t.TempDir()) // a commit that was not made
	_, err := commit(ctx, tree)
	require.NoError(t, err)

	again := open(t, dir, copied)
	assert.Empty(t, changes(t, again))
	sub(t, again, "moved/b")
	_, err = again.Root().Lookup(t.Context(), "dir")
	require.ErrorIs(t, err, vfs.NotFound)
	for e, err := range sub(t, again, "only").List(t.Context()) {
		t.Error(e, err, "in a directory that became empty")
	}
	require.Len(t, waiting, 5)
	assert.Empty(t, changes(t, before))
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
	require.NoError(t, err)
	_, err = commit(t.Context(), tree)
	require.NoError(t, err)
	stop()
	grown := int64(peak.Load()) - int64(before.HeapInuse)
	assert.Less(t, grown, most)
	t.Logf("the heap grew by %d MiB for %d MiB", grown>>20, size>>20)
	file, err := vfs.WalkFile(t.Context(), tree.Root(), "large")
	require.NoError(t, err)
	v, err := vfs.VersionOf(t.Context(), file)
	require.NoError(t, err)
	assert.Equal(t, vfs.Version(h.Sum(nil)), v)
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

package git_test

import (
	"fmt"
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

// raw writes changes as git diff-tree --raw does.
func raw(changes []git.Change) string {
	var b strings.Builder
	for _, c := range changes {
		letter := map[git.ChangeKind]string{git.Added: "A", git.Removed: "D", git.Modified: "M", git.TypeChanged: "T"}[c.Kind]
		for _, side := range []*git.Blob{&c.From, &c.To} {
			if side.Hash == "" {
				side.Hash = plumbing.ZeroHash.String()
			}
		}
		fmt.Fprintf(&b, ":%06o %06o %s %s %s\t%s\n", c.From.Mode, c.To.Mode, c.From.Hash, c.To.Hash, letter, c.Path)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	lines := strings.Repeat("a line\n", 50)
	tree, _ := f.withSubmodule(f.fill(vfstest.Tree{
		"same": {Data: "same"}, "edited": {Data: lines + "old\n" + lines}, "gone": {Data: "gone\n"}, "mode": {Data: "mode\n"},
		"linked": {Data: "a file\n"}, "dir/a": {Data: "a\n"}, "dir/b/c": {Data: "c\n"}, "file": {Data: "to be a directory\n"},
		"link": {Link: "old"}, "binary": {Data: "\x00\x01"}, "x-y": {Data: "1"}, "x/y": {Data: "1"}, "noend": {Data: "no end"},
	}))
	first := f.commit("main", tree)
	f.commit("main", f.fill(vfstest.Tree{
		"same": {Data: "same"}, "edited": {Data: lines + "new\n" + lines}, "new/deep/one": {Data: "new\n"}, "mode": {Data: "mode\n", Exec: true},
		"linked": {Link: "same"}, "dir": {Data: "was a directory\n"}, "file/in": {Data: "in\n"},
		"link": {Link: "new"}, "binary": {Data: "\x00\x02"}, "x-y": {Data: "2"}, "x/y": {Data: "2"}, "noend": {Data: "still no end"},
	}), first)
	s := f.open(git.Options{Revision: "main"})
	for _, pair := range [][2]string{{"main~1", "main"}, {"main", "main~1"}, {"main", "main"}, {first.String(), "main"}} {
		changes, err := s.Diff(t.Context(), pair[0], pair[1])
		require.NoError(t, err)
		assert.Equal(t, gitCLI(t, f.dir, "", "diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", pair[0], pair[1]), raw(changes))
		var all strings.Builder
		var shown strings.Builder // but for what git deflates in another way
		for _, c := range changes {
			text, whole, err := s.Unified(t.Context(), c)
			require.NoError(t, err)
			require.True(t, whole)
			all.WriteString(text)
			if c.Path != "binary" {
				shown.WriteString(text)
			}
		}
		want := gitCLI(t, f.dir, "", "diff", "--no-renames", pair[0], pair[1], "--", ".", ":!binary")
		assert.Equal(t, withoutIndex(want), shown.String())
		assert.Equal(t, gitCLI(t, f.dir, "", "rev-parse", pair[1]+"^{tree}"), applied(t, f.dir, pair[0], all.String()))
	}
	_, err := s.Diff(t.Context(), "main", "missing")
	require.ErrorIs(t, err, vfs.NotFound)
}

// applied is the tree that git makes of a revision and a patch.
func applied(t *testing.T, dir, revision, patch string) string {
	t.Setenv("GIT_INDEX_FILE", filepath.Join(t.TempDir(), "index"))
	gitCLI(t, dir, "", "read-tree", revision)
	if patch != "" {
		gitCLI(t, dir, patch, "apply", "--cached", "-")
	}
	return gitCLI(t, dir, "", "write-tree")
}

// withoutIndex leaves out the line that names blobs, and what git guesses of functions.
func withoutIndex(diff string) string {
	var kept []string
	for line := range strings.SplitSeq(diff, "\n") {
		if strings.HasPrefix(line, "index ") {
			continue
		}
		if strings.HasPrefix(line, "@@ ") {
			line = line[:strings.LastIndex(line, "@@")+2]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

func TestUnifiedOfWhatIsWritten(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	put(t, root, "README", "read me\nand this\n")
	require.NoError(t, vfs.Symlink(ctx, root, "a\"b", "target"))
	changes, patch, err := s.Diff(ctx)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	text, lacks, err := patch.Text(ctx, changes[0])
	require.NoError(t, err)
	assert.Empty(t, lacks)
	assert.Equal(t, "diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1,2 @@\n read me\n+and this\n", text)
	text, _, err = patch.Text(ctx, changes[1])
	require.NoError(t, err)
	assert.Equal(t, "diff --git \"a/a\\\"b\" \"b/a\\\"b\"\nnew file mode 120000\n--- /dev/null\n+++ \"b/a\\\"b\"\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n", text)
	put(t, root, "README", "something else\n")
	_, lacks, err = patch.Text(ctx, changes[0])
	require.NoError(t, err)
	assert.Contains(t, lacks, "ask again", "what was written since is not in the text")
	put(t, root, "README", "read me\n")
	changes, _, err = s.Diff(ctx)
	require.NoError(t, err)
	assert.Len(t, changes, 1, "what was changed back is no change")
}

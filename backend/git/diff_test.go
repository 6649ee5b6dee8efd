package git_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/unified"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// raw returns changes as git diff-tree --raw prints them.
func raw(t *testing.T, changes []diff.Change) string {
	letters := map[diff.Kind]string{diff.Added: "A", diff.Removed: "D", diff.Modified: "M", diff.Mode: "M", diff.Type: "T"}
	var b strings.Builder
	for _, c := range changes {
		from, old := rawSide(t, c.Was, c.Old)
		to, now := rawSide(t, c.Is, c.Content)
		fmt.Fprintf(&b, ":%s %s %s %s %s\t%s\n", from, to, old, now, letters[c.Kind], c.Path)
	}
	return b.String()
}

func rawSide(t *testing.T, s diff.State, open func(context.Context) (io.ReadCloser, error)) (mode, id string) {
	switch {
	case s.Absent():
		return "000000", plumbing.ZeroHash.String()
	case s.Kind == vfs.DirKind:
		return "160000", s.Target
	case s.Kind == vfs.LinkKind:
		mode = "120000"
	case s.Exec:
		mode = "100755"
	default:
		mode = "100644"
	}
	r, err := open(t.Context())
	check.OK(t, err)
	data, err := io.ReadAll(r)
	check.OK(t, err)
	check.OK(t, r.Close())
	return mode, plumbing.ComputeHash(plumbing.BlobObject, data).String()
}

func TestDiff(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	lines := strings.Repeat("a line\n", 50)
	tree, _ := f.withSubmodule(f.fill(vfstest.Tree{
		"same": {Data: "same"}, "edited": {Data: lines + "old\n" + lines}, "gone": {Data: "gone\n"}, "mode": {Data: "mode\n"},
		"linked": {Data: "a file\n"}, "dir/a": {Data: "a\n"}, "dir/b/c": {Data: "c\n"}, "file": {Data: "to be a directory\n"},
		"link": {Link: "old"}, "binary": {Data: "\x00\x01"}, "x-y": {Data: "1"}, "x/y": {Data: "1"}, "noend": {Data: "no end"},
		"points": {Data: "same"},
	}))
	first := f.commit("main", tree)
	f.commit("main", f.fill(vfstest.Tree{
		"same": {Data: "same"}, "edited": {Data: lines + "new\n" + lines}, "new/deep/one": {Data: "new\n"}, "mode": {Data: "mode\n", Exec: true},
		"linked": {Link: "same"}, "dir": {Data: "was a directory\n"}, "file/in": {Data: "in\n"},
		"link": {Link: "new"}, "binary": {Data: "\x00\x02"}, "x-y": {Data: "2"}, "x/y": {Data: "2"}, "noend": {Data: "still no end"},
		"points": {Link: "same"},
	}), first)
	s := f.open(git.Options{Revision: "main"})
	for _, pair := range [][2]string{{"main~1", "main"}, {"main", "main~1"}, {"main", "main"}, {first.String(), "main"}} {
		changes, err := s.Diff(t.Context(), pair[0], pair[1])
		check.OK(t, err)
		if got, want := raw(t, changes), gitCLI(t, f.dir, "", "diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", pair[0], pair[1]); got != want {
			t.Errorf("raw(changes) = %q, want %q", got, want)
		}
		var all strings.Builder
		var shown strings.Builder // without binary files, which git deflates differently
		for _, c := range changes {
			text, lacks, err := unified.InPlace.Text(t.Context(), c)
			check.OK(t, err)
			if submodule := c.Was.Target+c.Is.Target != ""; (lacks != "") != submodule {
				t.Fatalf("the text of %s lacks %q", c.Path, lacks)
			}
			all.WriteString(text)
			if c.Path != "binary" {
				shown.WriteString(text)
			}
		}
		want := gitCLI(t, f.dir, "", "diff", "--no-renames", pair[0], pair[1], "--", ".", ":!binary")
		if got, want := shown.String(), withoutIndex(want); got != want {
			t.Errorf("shown.String() = %q, want %q", got, want)
		}
		if got, want := applied(t, f.dir, pair[0], all.String()), gitCLI(t, f.dir, "", "rev-parse", pair[1]+"^{tree}"); got != want {
			t.Errorf("applied(f.dir, pair[0], all.String()) = %q, want %q", got, want)
		}
	}
	_, err := s.Diff(t.Context(), "main", "missing")
	check.Is(t, "s.Diff", err, vfs.NotFound)
}

// Early versions of git made files with other modes. git compares them as if they were
// plain files.
func TestDiffOfGroupWritable(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	entry := func(name string, mode filemode.FileMode, data string) object.TreeEntry {
		return object.TreeEntry{Name: name, Mode: mode, Hash: f.blob(data)}
	}
	first := f.commit("main", f.tree(entry("a", filemode.Deprecated, "a"), entry("b", filemode.Deprecated, "b"), entry("c", filemode.Deprecated, "c")))
	f.commit("main", f.tree(entry("a", filemode.Regular, "a"), entry("b", filemode.Regular, "B"), entry("c", filemode.Executable, "c")), first)
	changes, err := f.open(git.Options{Revision: "main"}).Diff(t.Context(), "main~1", "main")
	check.OK(t, err)
	if got, want := raw(t, changes), gitCLI(t, f.dir, "", "diff", "--raw", "--no-abbrev", "main~1", "main"); got != want {
		t.Errorf("raw(changes) = %q, want %q", got, want)
	}
}

// applied returns the tree that git makes when it applies a patch to a revision.
func applied(t *testing.T, dir, revision, patch string) string {
	t.Setenv("GIT_INDEX_FILE", filepath.Join(t.TempDir(), "index"))
	gitCLI(t, dir, "", "read-tree", revision)
	if patch != "" {
		gitCLI(t, dir, patch, "apply", "--cached", "-")
	}
	return gitCLI(t, dir, "", "write-tree")
}

// withoutIndex removes the lines that name blobs, and the names of functions that git guesses.
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
	check.OK(t, vfs.Symlink(ctx, root, "a\"b", "target"))
	changes, patch, err := s.Diff(ctx)
	check.OK(t, err)
	if len(changes) != 2 {
		t.Fatalf("changes = %v, want 2 of them", changes)
	}
	text, lacks, err := patch.Text(ctx, changes[0])
	check.OK(t, err)
	if lacks != "" {
		t.Errorf("lacks = %q, want nothing", lacks)
	}
	if want := "diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1,2 @@\n read me\n+and this\n"; text != want {
		t.Errorf("text = %q, want %q", text, want)
	}
	text, _, err = patch.Text(ctx, changes[1])
	check.OK(t, err)
	if want := "diff --git \"a/a\\\"b\" \"b/a\\\"b\"\nnew file mode 120000\n--- /dev/null\n+++ \"b/a\\\"b\"\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n"; text != want {
		t.Errorf("text = %q, want %q", text, want)
	}
	put(t, root, "README", "something else\n")
	_, lacks, err = patch.Text(ctx, changes[0])
	check.OK(t, err)
	if !strings.Contains(lacks, "ask again") {
		t.Errorf("lacks = %q, want it to contain %q: the text has what was written after Diff", lacks, "ask again")
	}
	put(t, root, "README", "read me\n")
	changes, _, err = s.Diff(ctx)
	check.OK(t, err)
	if len(changes) != 1 {
		t.Errorf("changes = %v, want 1 of them: a file that was changed back is no change", changes)
	}
}

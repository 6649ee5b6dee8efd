package unified_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs/unified"
)

func TestFormat(t *testing.T) {
	file := func(text string) unified.Side { return unified.Side{Path: "f", Mode: unified.File, Text: text} }
	nothing := unified.Side{Path: "f"}
	for _, c := range []struct {
		name     string
		from, to unified.Side
		same     bool
		want     string
	}{
		{"added", nothing, file("a\n"), false, "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"},
		{"removed", file("a\n"), nothing, false, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		{"modified", file("a\nb\n"), file("a\nc\n"), false, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"no newline", file("a"), file("b\n"), false, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"},
		{"mode", file("a"), unified.Side{Path: "f", Mode: unified.Executable, Text: "a"}, true, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
		{"renamed", file("a"), unified.Side{Path: "g", Mode: unified.File, Text: "a"}, true, "diff --git a/f b/g\nrename from f\nrename to g\n"},
		{"binary", unified.Side{Path: "f", Mode: unified.File, Opaque: true}, file("a"), false, "diff --git a/f b/f\nBinary files a/f and b/f differ\n"},
		{"an empty directory", nothing, unified.Side{Path: "f", Mode: unified.Directory}, false, "diff --git a/f b/f\nnew file mode 040000\n"},
		{"a name that acts on a terminal", unified.Side{Path: "\x1b"}, unified.Side{Path: "\x1b", Mode: unified.Link, Text: "x"}, false,
			"diff --git \"a/\\x1b\" \"b/\\x1b\"\nnew file mode 120000\n--- /dev/null\n+++ \"b/\\x1b\"\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"},
	} {
		if got := unified.Format(c.from, c.to, c.same); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

// git itself applies what Format writes.
func TestGitApplies(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CAPD_CI") != "" {
			t.Fatal("git is missing")
		}
		t.Skip("git is not installed")
	}
	long := strings.Repeat("line\n", 40)
	for _, c := range [][2]string{{"", "a"}, {"a\n", "b"}, {long + "x\n" + long, long + "y\nz\n" + long}, {"a\nb\nc", "c\nb\na\n"}} {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, []byte(c[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "apply", "-")
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader(unified.Format(
			unified.Side{Path: "f", Mode: unified.File, Text: c[0]}, unified.Side{Path: "f", Mode: unified.File, Text: c[1]}, false))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("git apply: %v\n%s", err, out)
			continue
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != c[1] {
			t.Errorf("git made %q, %v; want %q", got, err, c[1])
		}
	}
}

func TestContent(t *testing.T) {
	for _, c := range []struct {
		content string
		opaque  bool
	}{{"", false}, {"a\n", false}, {"é", false}, {"a\x00", true}, {"\xff", true}, {strings.Repeat("a", unified.MaxText), false}, {strings.Repeat("a", unified.MaxText+1), true}} {
		text, opaque := unified.Content([]byte(c.content))
		if opaque != c.opaque || !opaque && text != c.content {
			t.Errorf("Content of %d bytes: %d bytes, %v", len(c.content), len(text), opaque)
		}
	}
}

package unified_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/unified"
)

func TestFormat(t *testing.T) {
	file := func(text string) unified.Side {
		return unified.Side{Path: "f", Mode: unified.File, Data: []byte(text)}
	}
	nothing := unified.Side{Path: "f"}
	at := func(s unified.Side, path string, mode uint32) unified.Side {
		s.Path, s.Mode = path, mode
		return s
	}
	for _, c := range []struct {
		name     string
		from, to unified.Side
		how      unified.How
		same     bool
		want     string
	}{
		{"added", nothing, file("a\n"), 0, false, "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"},
		{"removed", file("a\n"), nothing, 0, false, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		{"modified", file("a\nb\n"), file("a\nc\n"), 0, false, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"no newline", file("a"), file("b\n"), 0, false, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"},
		{"mode", file("a"), at(file("a"), "f", unified.Executable), 0, true, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
		{"renamed", file("a"), at(file("a"), "g", unified.File), unified.Renamed, true, "diff --git a/f b/g\nrename from f\nrename to g\n"},
		{"copied", file("a\n"), at(file("b\n"), "g", unified.File), unified.Copied, false, "diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"},
		{"a link in place of a file", file("a\n"), at(file("b"), "f", unified.Link), 0, false,
			"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n" +
				"diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n"},
		{"a name with a space", at(nothing, "a b", 0), at(file("a\n"), "a b", unified.File), 0, false,
			"diff --git \"a/a b\" \"b/a b\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/a b\"\n@@ -0,0 +1 @@\n+a\n"},
		{"a name that acts on a terminal", unified.Side{Path: "\x1bé\xff"}, at(file("x\n"), "\x1bé\xff", unified.File), 0, false,
			"diff --git \"a/\\033é\\377\" \"b/\\033é\\377\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\033é\\377\"\n@@ -0,0 +1 @@\n+x\n"},
	} {
		if got, whole := unified.Format(c.from, c.to, c.how, c.same); got != c.want || !whole {
			t.Errorf("%s: %v\n%s\nwant:\n%s", c.name, whole, got, c.want)
		}
	}
}

// Git knows no directories: a directory has no text, and what it replaces is deleted.
func TestDirectory(t *testing.T) {
	file, dir := diff.State{Kind: vfs.FileKind}, diff.State{Kind: vfs.DirKind}
	for _, c := range []struct {
		change diff.Change
		want   string
	}{
		{diff.Change{Path: "f", Kind: diff.Added, Is: dir}, ""},
		{diff.Change{Path: "f", Kind: diff.Removed, Was: dir}, ""},
		{diff.Change{Path: "f", Kind: diff.Type, Was: file, Is: dir}, "diff --git a/f b/f\ndeleted file mode 100644\n"},
		{diff.Change{Path: "f", Kind: diff.Type, Was: dir, Is: file}, "diff --git a/f b/f\nnew file mode 100644\n"},
	} {
		text, lacks, err := unified.InPlace.Text(t.Context(), c.change)
		if text != c.want || lacks != "" || err != nil {
			t.Errorf("%v: %q, %q, %v, want %q", c.change, text, lacks, err, c.want)
		}
	}
}

// Nothing is written for a file that is too long, and the caller is told that the text is
// incomplete.
func TestLong(t *testing.T) {
	noise := make([]byte, unified.MaxPatch)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	for _, to := range []unified.Side{{Path: "f", Mode: unified.File, Long: true}, {Path: "f", Mode: unified.File, Data: noise}} {
		text, whole := unified.Format(unified.Side{Path: "f", Mode: unified.File, Data: []byte("a")}, to, 0, false)
		if whole || text != "" {
			t.Errorf("%v: %.200q, want nothing of it", whole, text)
		}
	}
}

// git itself applies what Format writes, and reverses it.
func TestGitApplies(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CAPD_CI") != "" {
			t.Fatal("git is missing")
		}
		t.Skip("git is not installed")
	}
	long := strings.Repeat("line\n", 40)
	cases := [][2]string{{"", "a"}, {"a\n", "b"}, {long + "x\n" + long, long + "y\nz\n" + long}, {"a\nb\nc", "c\nb\na\n"},
		{"a\r\nb\r", "a\nb\r\n"}, {"\x00", ""}, {"", "\xff\x00"}, {"--- a\n+++ b\n", "-- \n@@ -1 +1 @@\n"}, {"\n\n", "\n"}, {"a\u2028b\n", "a\u2028c"},
		{"text", string(bytes.Repeat([]byte{0, 1, 2, 200}, 100))}, {strings.Repeat("a\n", unified.MaxText), "b\n"}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		cases = append(cases, [2]string{lines(random), lines(random)})
	}
	dir := t.TempDir()
	var patch strings.Builder
	for i, c := range cases {
		name := fmt.Sprint("f", i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(c[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		text, whole := unified.Format(
			unified.Side{Path: name, Mode: unified.File, Data: []byte(c[0])}, unified.Side{Path: name, Mode: unified.File, Data: []byte(c[1])}, 0, c[0] == c[1])
		if !whole {
			t.Fatalf("%.100q to %.100q is not whole", c[0], c[1])
		}
		if c[0] != c[1] {
			patch.WriteString("M " + name + "\n" + text)
		}
	}
	for i, args := range [][]string{{"apply", "-"}, {"apply", "-R", "-"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		for n, c := range cases {
			if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("f", n))); err != nil || string(got) != c[1-i] {
				t.Errorf("git %v made %.100q of %.100q, %v; want %.100q", args, got, c[i], err, c[1-i])
			}
		}
	}
}

// lines returns a few lines, with or without a final newline.
func lines(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString([]string{"a", "b", "", "+a", "-b", "\\ c", "\r", " "}[r.IntN(8)])
		if r.IntN(60) == 0 {
			b.WriteByte(0)
		}
		b.WriteString([]string{"\n", "\n", "\n", "\r\n", "x\n"}[r.IntN(5)])
	}
	if s := b.String(); r.IntN(2) == 0 {
		return strings.TrimSuffix(s, "\n")
	}
	return b.String()
}

package patch_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/patch"
	"capd/vfs/vfstest/check"
)

// tree is files and their contents. A name that ends in "*" is executable.
type tree map[string]string

func (t tree) read(path string) (*patch.Content, error) {
	if data, ok := t[path]; ok {
		return &patch.Content{Data: []byte(data)}, nil
	}
	if data, ok := t[path+"*"]; ok {
		return &patch.Content{Data: []byte(data), Exec: true}, nil
	}
	return nil, nil
}

// apply returns t after text, or its reverse.
func (t tree) apply(text string, reverse bool) (tree, error) {
	p, err := patch.Parse([]byte(text))
	if err == nil && reverse {
		p, err = p.Reverse()
	}
	if err != nil {
		return nil, err
	}
	changes, err := p.Apply(t.read)
	if err != nil {
		return nil, err
	}
	after := tree{}
	for path, data := range t {
		after[path] = data
	}
	for _, c := range changes {
		delete(after, c.Path)
		delete(after, c.Path+"*")
		if c.Is != nil && c.Is.Exec {
			after[c.Path+"*"] = string(c.Is.Data)
		} else if c.Is != nil {
			after[c.Path] = string(c.Is.Data)
		}
	}
	return after, nil
}

const git = "diff --git a/f b/f\n"

// hunk returns a diff of f with this hunk.
func hunk(lines ...string) string { return "--- a/f\n+++ b/f\n" + strings.Join(lines, "\n") + "\n" }

// v4a returns a patch with these lines.
func v4a(lines ...string) string {
	return "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, patch string
		from, to    tree
		oneWay      bool // it cannot be reversed, or the reverse does not give from
	}{
		{name: "a line", patch: hunk("@@ -1,2 +1,2 @@", " a", "-b", "+c"), from: tree{"f": "a\nb\n"}, to: tree{"f": "a\nc\n"}},
		{name: "a wrong line number", patch: hunk("@@ -70,2 +90,2 @@", " a", "-b", "+c"), from: tree{"f": "x\na\nb\ny\n"}, to: tree{"f": "x\na\nc\ny\n"}},
		{name: "wrong counts", patch: hunk("@@ -1,9 +1,1 @@", " a", "-b", "+c"), from: tree{"f": "a\nb\n"}, to: tree{"f": "a\nc\n"}},
		{name: "counts of fewer lines", patch: hunk("@@ -1 +1 @@", " a", "-b", "+c"), from: tree{"f": "a\nb\n"}, to: tree{"f": "a\nc\n"}},
		{name: "no numbers", patch: hunk("@@ ... @@", " a", "-b", "+c"), from: tree{"f": "a\nb\n"}, to: tree{"f": "a\nc\n"}},
		{name: "the number decides", patch: hunk("@@ -3 +3 @@", "-a", "+b"), from: tree{"f": "a\na\na\na\n"}, to: tree{"f": "a\na\nb\na\n"}},
		{name: "the next hunk decides", patch: hunk("@@ @@", "-a", "+b", "@@ @@", "-x", "+y"), from: tree{"f": "a\nx\na\n"}, to: tree{"f": "b\ny\na\n"}},
		{name: "an empty line that has lost its space", patch: hunk("@@ -1,3 +1,3 @@", " a", "", "-b", "+c"), from: tree{"f": "a\n\nb\n"}, to: tree{"f": "a\n\nc\n"}},
		{name: "two files", patch: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-c\n+d\n", from: tree{"f": "a\n", "g": "c\n"}, to: tree{"f": "b\n", "g": "d\n"}},
		{name: "two files and wrong counts", patch: "--- a/f\n+++ b/f\n@@ -1,7 +1,7 @@\n-a\n+b\n\n--- a/g\n+++ b/g\n@@ -1,5 +1 @@\n-c\n+d\n", from: tree{"f": "a\n", "g": "c\n"}, to: tree{"f": "b\n", "g": "d\n"}},
		{name: "lines that look like names", patch: hunk("@@ -1,2 +1,2 @@", "--- x", "+++ y", " z"), from: tree{"f": "-- x\nz\n"}, to: tree{"f": "++ y\nz\n"}},
		{name: "a mail", patch: "Subject: [PATCH] x\n\n---\n f | 2 +-\n\n" + git + hunk("@@ -1 +1 @@", "-a", "+b", "-- ", "2.39.0", ""), from: tree{"f": "a\n"}, to: tree{"f": "b\n"}},

		{name: "CRLF stays", patch: hunk("@@ -1,2 +1,3 @@", " a", "-b", "+c", "+d"), from: tree{"f": "a\r\nb\r\n"}, to: tree{"f": "a\r\nc\r\nd\r\n"}},
		{name: "CRLF of one place", patch: hunk("@@ -1,3 +1,4 @@", " a", "-b", "+B", "-c", "+C", "+d"), from: tree{"f": "a\nb\r\nc\n"}, to: tree{"f": "a\nB\r\nC\nd\n"}, oneWay: true},
		{name: "CRLF becomes LF", patch: hunk("@@ -1 +1 @@", "-a\r", "+a"), from: tree{"f": "a\r\n"}, to: tree{"f": "a\n"}},
		{name: "LF becomes CRLF", patch: hunk("@@ -1,2 +1,2 @@", " x", "-a", "+a\r"), from: tree{"f": "x\na\n"}, to: tree{"f": "x\na\r\n"}},
		{name: "a patch in CRLF", patch: strings.ReplaceAll(hunk("@@ -1 +1 @@", "-a", "+b"), "\n", "\r\n"), from: tree{"f": "a\n"}, to: tree{"f": "b\n"}},
		{name: "byte order mark", patch: hunk("@@ -1 +1 @@", "-a", "+b"), from: tree{"f": "\xef\xbb\xbfa\n"}, to: tree{"f": "\xef\xbb\xbfb\n"}},
		{name: "before the byte order mark", patch: hunk("@@ -1 +1,2 @@", "+b", " a"), from: tree{"f": "\xef\xbb\xbfa\r\n"}, to: tree{"f": "\xef\xbb\xbfb\r\na\r\n"}},
		{name: "byte order mark removed", patch: hunk("@@ -1 +1 @@", "-\xef\xbb\xbfa", "+a"), from: tree{"f": "\xef\xbb\xbfa\n"}, to: tree{"f": "a\n"}},
		{name: "Latin-1", patch: hunk("@@ -1,2 +1,2 @@", " caf\xe9", "-b", "+c"), from: tree{"f": "\xff\ncaf\xe9\nb\n"}, to: tree{"f": "\xff\ncaf\xe9\nc\n"}},
		{name: "no final newline", patch: hunk("@@ -1,2 +1,2 @@", " a", "-b", "+c"), from: tree{"f": "a\nb"}, to: tree{"f": "a\nc"}},
		{name: "no final newline, more lines", patch: hunk("@@ -1 +1,2 @@", " a", "+b"), from: tree{"f": "a"}, to: tree{"f": "a\nb"}, oneWay: true},
		{name: "final newline comes", patch: hunk("@@ -1 +1 @@", "-a", `\ No newline at end of file`, "+a"), from: tree{"f": "a"}, to: tree{"f": "a\n"}},
		{name: "final newline goes", patch: hunk("@@ -1 +1 @@", "-a", "+a", `\ No newline at end of file`), from: tree{"f": "a\n"}, to: tree{"f": "a"}},

		{name: "new", patch: "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,2 @@\n+a\n+b\n", from: tree{}, to: tree{"d/f": "a\nb\n"}},
		{name: "new and empty", patch: git + "new file mode 100644\nindex 0000000..e69de29\n", from: tree{}, to: tree{"f": ""}},
		{name: "new and executable", patch: git + "new file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n", from: tree{}, to: tree{"f*": "a"}},
		{name: "deleted", patch: git + "deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", from: tree{"f": "a\n", "g": ""}, to: tree{"g": ""}},
		{name: "renamed", patch: "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n", from: tree{"f*": "a\n"}, to: tree{"g*": "a\n"}},
		{name: "renamed and changed", patch: "diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", from: tree{"f": "a\n"}, to: tree{"g": "b\n"}},
		{name: "exchanged", patch: "diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/g b/f\nrename from g\nrename to f\n", from: tree{"f": "a\n", "g": "b\n"}, to: tree{"f": "b\n", "g": "a\n"}},
		{name: "copied", patch: "diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n" + git + hunk("@@ -1 +1 @@", "-a", "+c"), from: tree{"f": "a\n"}, to: tree{"f": "c\n", "g": "b\n"}},
		{name: "mode", patch: git + "old mode 100644\nnew mode 100755\n", from: tree{"f": "a\n"}, to: tree{"f*": "a\n"}},
		{name: "quoted names", patch: "diff --git \"a/a \\\"b\\303\\251\" \"b/a \\\"b\\303\\251\"\n--- \"a/a \\\"b\\303\\251\"\n+++ \"b/a \\\"b\\303\\251\"\n@@ -1 +1 @@\n-a\n+b\n", from: tree{"a \"bé": "a\n"}, to: tree{"a \"bé": "b\n"}},
		{name: "names with spaces, a time and no prefix", patch: "--- my file\t2026-01-01 00:00:00\n+++ my file\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n", from: tree{"my file": "a\n"}, to: tree{"my file": "b\n"}},
		{name: "a directory called a", patch: "--- a/f\n+++ a/f\n@@ -1 +1 @@\n-a\n+b\n", from: tree{"a/f": "a\n"}, to: tree{"a/f": "b\n"}},
		{name: "mnemonic prefixes", patch: "--- i/f\n+++ w/f\n@@ -1 +1 @@\n-a\n+b\n", from: tree{"f": "a\n"}, to: tree{"f": "b\n"}},
		{name: "twice", patch: hunk("@@ -1 +1 @@", "-a", "+b") + hunk("@@ -1 +1 @@", "-b", "+c"), from: tree{"f": "a\n"}, to: tree{"f": "c\n"}},

		{name: "V4A", patch: v4a("*** Update File: f", "@@", " a", "-b", "+c", "*** Add File: d/g", "+x", "+", "*** Delete File: h"), from: tree{"f": "a\nb\n", "h": "?"}, to: tree{"f": "a\nc\n", "d/g": "x\n\n"}, oneWay: true},
		{name: "V4A below a line", patch: v4a("*** Update File: f", "@@ def b():", "-  return 1", "+  return 2"), from: tree{"f": "def a():\n  return 1\ndef b():\n  return 1\ndef c():\n  return 1\n"}, to: tree{"f": "def a():\n  return 1\ndef b():\n  return 2\ndef c():\n  return 1\n"}},
		{name: "V4A below two lines", patch: v4a("*** Update File: f", "@@ class B", "@@ def x", "-1", "+2"), from: tree{"f": "class A\n def x\n1\nclass B\n def x\n1\n"}, to: tree{"f": "class A\n def x\n1\nclass B\n def x\n2\n"}},
		{name: "V4A end of file", patch: v4a("*** Update File: f", "-a", "+b", "*** End of File"), from: tree{"f": "a\na\n"}, to: tree{"f": "a\nb\n"}},
		{name: "V4A move", patch: v4a("*** Update File: f", "*** Move to: d/g", "@@", "-a", "+b"), from: tree{"f": "a\n"}, to: tree{"d/g": "b\n"}},
		{name: "V4A adds at the end", patch: v4a("*** Update File: f", "@@", "+b"), from: tree{"f": "a"}, to: tree{"f": "a\nb"}, oneWay: true},
		{name: "V4A around a text", patch: "Here it is:\n" + v4a("*** Update File: f", "@@", "-a", "+b") + "Done.\n", from: tree{"f": "a\n"}, to: tree{"f": "b\n"}},
	} {
		got, err := c.from.apply(c.patch, false)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.to) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.to)
			continue
		}
		if c.oneWay {
			continue
		}
		if back, err := c.to.apply(c.patch, true); err != nil || fmt.Sprint(back) != fmt.Sprint(c.from) {
			t.Errorf("%s, reversed: %q, %v, want %q", c.name, back, err, c.from)
		}
	}
}

// TestRefused holds what a refusal says.
func TestRefused(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for _, c := range []struct {
		name, patch string
		from        tree
		code        vfs.Code
		says        string
	}{
		{"ambiguous", hunk("@@ -9 +9 @@", "-a", "+b"), tree{"f": "a\nx\na\n"}, vfs.Conflict, "conflict: f: hunk 1 of 1 (line 3 of the patch) fits at several places, at the lines 1, 3;"},
		{"ambiguous below a line", v4a("*** Update File: f", "@@ x", "-a", "+b"), tree{"f": "x\na\nx\na\n"}, vfs.Conflict, "at the lines 2, 4"},
		{"nowhere", hunk("@@ -1,3 +1,3 @@", " 4", "-five", "+V", " 6"), tree{"f": ten}, vfs.Conflict, `the closest is line 4, but line 5 is "5" and the patch has "five"`},
		{"second hunk", hunk("@@ -1 +1 @@", "-1", "+I", "@@ -9 +9 @@", "-nine", "+IX", " 10"), tree{"f": ten}, vfs.Conflict, `hunk 2 of 2 (line 6 of the patch) fits nowhere; the closest is line 9, but line 9 is "9"`},
		{"wrong order", hunk("@@ @@", "-9", "+IX", "@@ @@", "-1", "+I"), tree{"f": ten}, vfs.Conflict, "it fits at line 1: put the hunks in the order of the file"},
		{"applied already", hunk("@@ -1,2 +1,2 @@", " a", "-b", "+c"), tree{"f": "x\na\nc\n"}, vfs.Conflict, "what it makes is at line 2: it seems applied already"},
		{"tabs", hunk("@@ -1,2 +1,2 @@", " a", "-    b", "+c"), tree{"f": "a\n\tb\n"}, vfs.Conflict, `line 2 is "\tb" and the patch has "    b" (they differ in tabs and spaces)`},
		{"spaces at the end", hunk("@@ -1,2 +1,2 @@", " a", "-b", "+c"), tree{"f": "a\nb  \n"}, vfs.Conflict, "(they differ in spaces at the end)"},
		{"quotes", hunk("@@ -1,2 +1,2 @@", " a", "-say \"b\"", "+c"), tree{"f": "a\nsay “b”\n"}, vfs.Conflict, "(they differ in curly quotes or dashes)"},
		{"nothing alike", hunk("@@ -1 +1 @@", "-q", "+c"), tree{"f": ten}, vfs.Conflict, "the file has none of its lines"},
		{"empty", hunk("@@ -1 +1 @@", "-q", "+c"), tree{"f": ""}, vfs.Conflict, "the file is empty"},
		{"a final newline", hunk("@@ -1 +1 @@", "-a", `\ No newline at end of file`, "+b"), tree{"f": "a\n"}, vfs.Conflict, "is not the end of a file without a final newline"},
		{"no context", hunk("@@ -1,0 +2 @@", "+b"), tree{"f": "a\n"}, vfs.Conflict, "give lines of context"},
		{"below what is not there", v4a("*** Update File: f", "@@ def q", "-a", "+b"), tree{"f": "a\n"}, vfs.Conflict, `no line of the file is "def q"`},
		{"more than is deleted", git + "deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", tree{"f": "a\nb\n"}, vfs.Conflict, "more than the patch deletes"},
		{"not there", hunk("@@ -1 +1 @@", "-a", "+b"), tree{}, vfs.NotFound, "notFound: f: line 1 of the patch"},
		{"there already", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", tree{"f": "a\n"}, vfs.Exists, "with the same content: it seems applied already"},
		{"added where something is", v4a("*** Add File: f", "+a"), tree{"f": "b\n"}, vfs.Exists, "something is there"},
		{"renamed onto something", "diff --git a/f b/g\nrename from f\nrename to g\n", tree{"f": "a\n", "g": "b\n"}, vfs.Exists, "exists: g:"},

		{"text", "hello\n", nil, vfs.Invalid, "this is not a patch"},
		{"nothing", "", nil, vfs.Invalid, "this is not a patch"},
		{"cut off", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", nil, vfs.Invalid, `"*** End Patch" is missing`},
		{"no hunk", "--- a/f\n+++ b/f\n", nil, vfs.Invalid, "was it cut off?"},
		{"a hunk without a file", "@@ -1 +1 @@\n-a\n+b\n", nil, vfs.Invalid, "a hunk has no file"},
		{"V4A, no sign", v4a("*** Add File: f", "a"), nil, vfs.Invalid, `line 3 of the patch: each line of a new file begins with "+"`},
		{"V4A, no name", v4a("*** Add File: ", "+a"), nil, vfs.Invalid, "the name of the file is missing"},
		{"absolute", "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", nil, vfs.Invalid, "invalid: /etc/passwd"},
		{"above", "--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n", nil, vfs.Invalid, "a Dir has no parent"},
		{"above by a move", v4a("*** Update File: f", "*** Move to: ../g", "@@", "-a", "+b"), nil, vfs.Invalid, "a Dir has no parent"},
		{"two names", "diff --git a/f b/g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", nil, vfs.Invalid, "does not say that the file is renamed"},
		{"binary", git + "index 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n", nil, vfs.Unsupported, "binary patches are not supported"},
		{"binary files", git + "index 1..2 100644\nBinary files a/f and b/f differ\n", nil, vfs.Unsupported, "binary patches are not supported"},
		{"a link", git + "new file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+g\n", nil, vfs.Unsupported, "cannot change links"},
		{"too long", strings.Repeat("a", patch.MaxBytes+1), nil, vfs.TooLarge, "at most 4194304 bytes"},
		{"too many files", strings.Repeat(git+"old mode 100644\nnew mode 100755\n", patch.MaxFiles+1), nil, vfs.Limit, "at most 1000 files"},
		{"too many lines", hunk(strings.Repeat("\n", patch.MaxLines)), nil, vfs.Limit, "at most 524288 lines"},
		{"too many hunks", hunk(strings.Repeat("@@ @@\n-a\n", patch.MaxHunks+1)), nil, vfs.Limit, "at most 50000 hunks"},
	} {
		got, err := c.from.apply(c.patch, false)
		if vfs.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %q, %v, want %s that says %q", c.name, got, err, c.code, c.says)
		}
	}
	_, err := tree{}.apply(v4a("*** Delete File: f"), true)
	check.Is(t, "a Delete File reversed", err, vfs.Invalid)
}

// TestNothingOfSome applies a patch of which the second file does not fit.
func TestNothingOfSome(t *testing.T) {
	p, err := patch.Parse([]byte(hunk("@@ -1 +1 @@", "-a", "+b") + "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-c\n+d\n"))
	check.OK(t, err)
	changes, err := p.Apply(tree{"f": "a\n", "g": "x\n"}.read)
	if check.Is(t, "a patch of which one file does not fit", err, vfs.Conflict); changes != nil {
		t.Errorf("%v, want nothing", changes)
	}
}

// TestHostile applies patches that take long if they are searched for without care.
func TestHostile(t *testing.T) {
	lines := 1 << 16
	if os.Getenv("CAPD_CI") != "" {
		lines = 1 << 20
	}
	same := strings.Repeat("a\n", lines)
	long := strings.Repeat(" a\n", 1000)
	for name, c := range map[string]struct {
		patch, file string
		code        vfs.Code
	}{
		"many hunks, equal lines":  {hunk(strings.Repeat("@@ @@\n-a\n+b\n", 20_000)), same, vfs.Conflict},
		"many hunks with numbers":  {hunk(strings.Repeat("@@ -1 +1 @@\n-a\n+b\n", 20_000)), same, vfs.Conflict},
		"long hunks, equal lines":  {hunk(strings.Repeat("@@ @@\n"+long+"-b\n+c\n", 200)), same + "b\n", vfs.Conflict},
		"long hunks that end late": {hunk(strings.Repeat("@@ @@\n"+long+"-b\n", 200)), strings.Repeat(strings.Repeat("a\n", 999)+"b\n", lines/1000), vfs.Conflict},
		"one hunk at many places":  {hunk("@@ @@\n" + strings.Repeat(" a\n", 1<<15) + " b\n a"), same + strings.Repeat("b\n", lines+1), vfs.Limit},
		"below equal lines":        {v4a("*** Update File: f", strings.Repeat("@@ a\n-b\n+c\n", 20_000)+"@@ a", "-b"), same + "b\n", vfs.Conflict},
		"empty lines":              {hunk("@@ @@\n" + strings.Repeat("\n", 1<<18)), "b\n", vfs.Invalid},
		"empty lines, many hunks":  {hunk(strings.Repeat("@@ -1 +1 @@\n \n", 40_000) + strings.Repeat("\n", 1<<18)), "b\n", vfs.Conflict},
	} {
		begin := time.Now()
		_, err := tree{"f": c.file}.apply(c.patch, false)
		took := time.Since(begin)
		if check.Is(t, name, err, c.code); took > 20*time.Second {
			t.Errorf("%s took %v, want less than a second", name, took)
		}
		t.Logf("%s: %v: %.150v", name, took.Round(time.Millisecond), err)
	}
}

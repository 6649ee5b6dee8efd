package overlay_test

import (
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

func TestDiff(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(b *bench)
		want []string
	}{
		{"nothing", func(*bench) {}, nil},
		{"looking", func(b *bench) { shape(b, b.root) }, nil},
		{"added", func(b *bench) { b.put(b.root, "src/new", "x") }, []string{"added src/new"}},
		{"removed", func(b *bench) { b.remove(b.root, "src/sub") }, []string{"removed src/sub", "removed src/sub/c.go"}},
		{"modified", func(b *bench) { b.put(b.root, "doc", "x") }, []string{"modified doc"}},
		{"written back", func(b *bench) {
			b.put(b.root, "doc", "x")
			b.put(b.root, "doc", "one\ntwo\nthree\n")
		}, nil},
		{"made and removed", func(b *bench) {
			b.mkdir(b.root, "src/x")
			b.put(b.root, "src/x/y", "z")
			b.remove(b.root, "src/x")
		}, nil},
		{"removed and made again", func(b *bench) {
			b.remove(b.root, "doc")
			b.put(b.root, "doc", "one\ntwo\nthree\n")
		}, nil},
		{"mode", func(b *bench) {
			_, err := vfs.Install(b.Context(), b.root, "run", strings.NewReader("#!\n"), false, vfs.If{})
			b.must(err)
		}, []string{"mode run"}},
		{"type", func(b *bench) {
			b.remove(b.root, "now")
			b.mkdir(b.root, "now")
		}, []string{"type now"}},
		{"a directory made again", func(b *bench) {
			b.remove(b.root, "src")
			b.mkdir(b.root, "src")
			b.put(b.root, "src/a.go", "package other\n")
		}, []string{"modified src/a.go", "removed src/b.go", "removed src/sub", "removed src/sub/c.go"}},
		{"renamed file", func(b *bench) { b.move("doc", "src/doc") }, []string{"renamed src/doc from doc"}},
		{"renamed directory", func(b *bench) { b.move("src", "hollow/src") }, []string{"renamed hollow/src from src"}},
		{"renamed, changed below, renamed again", func(b *bench) {
			b.move("src", "lib")
			b.put(b.root, "lib/a.go", "package lib\n")
			b.move("lib/sub", "lib/inner")
			b.remove(b.root, "lib/b.go")
			b.move("lib", "pkg")
		}, []string{"renamed pkg from src", "modified pkg/a.go", "removed pkg/b.go", "renamed pkg/inner from src/sub"}},
		{"renamed there and back", func(b *bench) {
			b.move("src", "lib")
			b.move("lib", "src")
			b.move("doc", "hollow/doc")
			b.move("hollow/doc", "doc")
		}, nil},
		{"exchanged", func(b *bench) {
			b.move("src", "tmp")
			b.move("hollow", "src")
			b.move("tmp", "hollow")
		}, []string{"renamed hollow from src", "renamed src from hollow"}},
		{"a file over a file", func(b *bench) {
			b.remove(b.root, "doc")
			b.move("src/a.go", "doc")
		}, []string{"modified doc", "removed src/a.go"}},
		{"a file over a file, out of a directory that goes", func(b *bench) {
			b.remove(b.root, "doc")
			b.move("src/sub/c.go", "doc")
			b.remove(b.root, "src/sub")
		}, []string{"modified doc", "removed src/sub", "removed src/sub/c.go"}},
		{"files exchanged", func(b *bench) {
			b.move("doc", "tmp")
			b.move("src/a.go", "doc")
			b.move("tmp", "src/a.go")
		}, []string{"modified doc", "modified src/a.go"}},
		{"a file over one that was moved", func(b *bench) {
			b.move("doc", "old")
			b.move("src/a.go", "doc")
		}, []string{"modified doc", "renamed old from doc", "removed src/a.go"}},
		{"a file over a link", func(b *bench) {
			b.remove(b.root, "now")
			b.move("doc", "now")
		}, []string{"removed doc", "type now"}},
		{"a directory over a file", func(b *bench) {
			b.remove(b.root, "doc")
			b.move("src", "doc")
		}, []string{"type doc from src"}},
		{"a directory made again with the same names", func(b *bench) {
			b.mkdir(b.root, "lib")
			b.move("src", "lib/src")
			b.remove(b.root, "lib/src/sub")
			b.mkdir(b.root, "lib/src/sub")
			b.move("doc", "lib/src/sub/c.go")
		}, []string{"added lib", "renamed lib/src from src", "renamed lib/src/sub/c.go from doc", "removed src/sub/c.go"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, project)
			test.do(b)
			b.changed(test.want...)
			b.o = laid(t, b.lower, b.upper.Root())
			b.changed(test.want...)
			_, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
			b.must(err)
			b.changed()
		})
	}
}

func TestDiffUnder(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "src/new", "x")
	b.put(b.root, "srcs", "x")
	changes, err := b.o.Diff(t.Context(), "src")
	if err != nil || len(changes) != 1 || changes[0].Path != "src/new" {
		t.Errorf("Diff below src: %v, %v", changes, err)
	}
	if _, err := b.o.Diff(t.Context(), "../src"); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("Diff of a bad path: %v", err)
	}
}

func TestText(t *testing.T) {
	b := newBench(t, project)
	b.put(b.root, "doc", "one\n2\nthree\n")
	b.put(b.root, "new", "fresh\n")
	b.put(b.root, "long", strings.Repeat("x", 9<<20))
	b.move("src", "lib")
	b.put(b.root, "lib/a.go", "package lib\n")
	_, err := vfs.Install(t.Context(), b.root, "run", strings.NewReader("#!\n"), false, vfs.If{})
	b.must(err)
	b.remove(b.root, "now")
	out, lacks := textOf(t, b.o)
	want := `M "doc"
diff --git a/doc b/doc
--- a/doc
+++ b/doc
@@ -1,3 +1,3 @@
 one
-two
+2
 three
M "lib"
diff --git a/src/b.go b/lib/b.go
rename from src/b.go
rename to lib/b.go
diff --git a/src/sub/c.go b/lib/sub/c.go
rename from src/sub/c.go
rename to lib/sub/c.go
M "lib/a.go"
diff --git a/src/a.go b/lib/a.go
rename from src/a.go
rename to lib/a.go
--- a/src/a.go
+++ b/lib/a.go
@@ -1 +1 @@
-package a
+package lib
M "long"
M "new"
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+fresh
M "now"
diff --git a/now b/now
deleted file mode 120000
--- a/now
+++ /dev/null
@@ -1 +0,0 @@
-doc
\ No newline at end of file
M "run"
diff --git a/run b/run
old mode 100755
new mode 100644
`
	if !strings.HasPrefix(lacks, "long is too long (files longer than 8 MiB, ") {
		t.Errorf("the text lacks %q", lacks)
	}
	if got := out; got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	// What the patch compares is gone when it is read, and then there again.
	changes, patch, err := b.o.Patch(t.Context())
	b.must(err)
	b.put(b.lower, "doc", "another\n")
	text, lacks, err := patch.Text(t.Context(), changes[0])
	if b.must(err); lacks == "" || strings.Contains(text, "another") {
		t.Errorf("the text of what the lower tree has no more lacks %q:\n%s", lacks, text)
	}
	if out, _ := textOf(t, b.o); !strings.Contains(out, "the tree below changed here too") || !strings.Contains(out, "-another\n") {
		t.Errorf("the text does not say that the lower tree has changed as well:\n%s", out)
	}
}

// TestTextOverwritten: a guest puts one file of the lower tree in place of another. The
// text shows what was there.
func TestTextOverwritten(t *testing.T) {
	for name, test := range map[string]struct {
		from   string
		over   bool // in one step, and not after a removal
		change string
	}{
		"removed before": {"src/a.go", false, "-two\n"},
		"by the rename":  {"src/a.go", true, "-two\n"},
		"a directory":    {"src", false, "-two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, project)
			if test.over {
				src, err := vfs.WalkDir(t.Context(), b.root, "src")
				b.must(err)
				f, err := vfs.WalkFile(t.Context(), b.root, "doc")
				b.must(err)
				v, err := vfs.VersionOf(t.Context(), f)
				b.must(err)
				b.must(src.Rename(t.Context(), "a.go", b.root, "doc", vfs.If{}, vfs.If{Is: v}))
			} else {
				b.remove(b.root, "doc")
				b.move(test.from, "doc")
			}
			out, _ := textOf(t, b.o)
			if !strings.Contains(out, test.change) {
				t.Errorf("the text hides what was overwritten:\n%s", out)
			}
		})
	}
}

// TestDiffReplacedDirectory puts a directory in place of one with the same names, and
// writes there. It is compared with what the lower tree has at these places.
func TestDiffReplacedDirectory(t *testing.T) {
	b := newBench(t, vfstest.Tree{"safe/run": {Data: "safe\n"}, "other/run": {Data: "other\n"}, "other/more": {Data: "more\n"}})
	b.remove(b.root, "safe")
	b.move("other", "safe")
	b.changed("renamed safe from other", "modified safe/run")
	b.put(b.root, "safe/run", "evil\n")
	b.changed("renamed safe from other", "modified safe/run")
	out, _ := textOf(t, b.o)
	if !strings.Contains(out, "-safe\n+evil\n") {
		t.Errorf("the text is\n%s", out)
	}
}

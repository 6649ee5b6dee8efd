package git_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func names(t testing.TB, d vfs.Dir) (all []string) {
	t.Helper()
	for e, err := range d.List(t.Context()) {
		check.OK(t, err)
		all = append(all, e.Name)
	}
	return all
}

func TestTreesOfBadNames(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	blob := f.blob("x")
	entries := func(names ...string) (all []object.TreeEntry) {
		for _, name := range names {
			all = append(all, object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: blob})
		}
		return all
	}
	for _, bad := range []string{"", ".", "..", ".git", ".GIT", ".Git ", ".git.", "git~1", "GIT~1", ".g\u200cit", ".git:x", "a/b", "../up", "/abs", ".git\\x"} {
		t.Run(fmt.Sprintf("%q", bad), func(t *testing.T) {
			f.commit("master", f.rawTree(entries(bad, "fine")...))
			s := f.work(git.Options{})
			root := s.Root()
			if got, want := names(t, root), []string{"fine"}; !reflect.DeepEqual(got, want) {
				t.Errorf("names(root) = %v, want %v", got, want)
			}
			if vfs.CheckName(bad) == nil {
				_, err := root.Lookup(t.Context(), bad)
				check.Is(t, "root.Lookup", err, vfs.NotFound)
				_, err = root.Create(t.Context(), bad)
				check.Is(t, "root.Create", err, vfs.Invalid)
			}
			put(t, root, "new", "x")
			_, err := s.Commit(t.Context(), onto("other"))
			check.Is(t, "commit of a tree that git fsck refuses", err, vfs.Corrupt)
		})
	}
	t.Run("Long", func(t *testing.T) {
		long := strings.Repeat("n", 300)
		f.commit("master", f.tree(entries(long, "fine")...))
		s := f.work(git.Options{})
		if got, want := names(t, s.Root()), []string{"fine"}; !reflect.DeepEqual(got, want) {
			t.Errorf("names(s.Root()) = %v, want %v", got, want)
		}
		put(t, s.Root(), "new", "x")
		_, err := s.Commit(t.Context(), onto("long"))
		check.OK(t, err)
		if got := gitCLI(t, f.dir, "", "ls-tree", "--name-only", "long"); !strings.Contains(got, long) {
			t.Errorf("git ls-tree --name-only long = %q, want it to contain %q, which vfs cannot name", got, long)
		}
	})
	t.Run("Twice", func(t *testing.T) {
		dir := f.tree(entries("inner")...)
		f.commit("master", f.rawTree(append(entries("a", "a", "b"), object.TreeEntry{Name: "b", Mode: filemode.Dir, Hash: dir})...))
		root := f.open(git.Options{}).Root()
		if got, want := names(t, root), []string{"a", "b"}; !reflect.DeepEqual(got, want) {
			t.Errorf("names(root) = %v, want %v", got, want)
		}
		n, err := root.Lookup(t.Context(), "b")
		check.OK(t, err)
		if got := vfs.KindOf(n); got != vfs.FileKind {
			t.Errorf("vfs.KindOf(n) = %v, want %v, as the first entry of that name", got, vfs.FileKind)
		}
	})
	t.Run("Unsorted", func(t *testing.T) {
		f.commit("master", f.rawTree(entries("c", "a", "d", "b")...))
		root := f.open(git.Options{}).Root()
		if got, want := names(t, root), []string{"a", "b", "c", "d"}; !reflect.DeepEqual(got, want) {
			t.Errorf("names(root) = %v, want %v", got, want)
		}
		if got, want := content(t, root, "d"), "x"; got != want {
			t.Errorf(`content(root, "d") = %q, want %q`, got, want)
		}
	})
	t.Run("Modes", func(t *testing.T) {
		all := entries("fine", "socket", "zero")
		all[1].Mode, all[2].Hash = 0o140000, plumbing.ZeroHash
		f.commit("master", f.rawTree(all...))
		if got, want := names(t, f.open(git.Options{}).Root()), []string{"fine"}; !reflect.DeepEqual(got, want) {
			t.Errorf("names(f.open(git.Options{}).Root()) = %v, want %v", got, want)
		}
	})
}

func TestTreesThatAreNone(t *testing.T) {
	f := newFixture(t)
	id := strings.Repeat("\x01", 20)
	for name, raw := range map[string]string{
		"cut":       "100644 a\x00" + id[:19],
		"no NUL":    "100644 a" + strings.Repeat("b", 40),
		"no mode":   " a\x00" + id,
		"letters":   "10064x a\x00" + id,
		"long mode": "0000000100644 a\x00" + id,
		"rest":      "100644 a\x00" + id + "x",
	} {
		below := f.object(plumbing.TreeObject, raw)
		f.commit("master", f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: below}))
		d := sub(t, f.open(git.Options{}).Root(), "d")
		check.Is(t, "d.Stat "+name, errorOf(d.Stat(t.Context())), vfs.Corrupt)
		check.Is(t, "d.Lookup "+name, errorOf(d.Lookup(t.Context(), "a")), vfs.Corrupt)
		for _, err := range d.List(t.Context()) {
			check.Is(t, name, err, vfs.Corrupt)
		}
	}
}

func TestObjectsThatAreNotThere(t *testing.T) {
	f := newFixture(t)
	missing := plumbing.NewHash(strings.Repeat("1", 40))
	blob, tree := f.blob("x"), f.fill(vfstest.Tree{"f": {Data: "x"}})
	f.commit("master", f.tree(
		object.TreeEntry{Name: "file-missing", Mode: filemode.Regular, Hash: missing},
		object.TreeEntry{Name: "file-tree", Mode: filemode.Regular, Hash: tree},
		object.TreeEntry{Name: "link-missing", Mode: filemode.Symlink, Hash: missing},
		object.TreeEntry{Name: "link-tree", Mode: filemode.Symlink, Hash: tree},
		object.TreeEntry{Name: "dir-missing", Mode: filemode.Dir, Hash: missing},
		object.TreeEntry{Name: "dir-blob", Mode: filemode.Dir, Hash: blob},
	))
	ctx, root := t.Context(), f.work(git.Options{}).Root()
	for _, name := range names(t, root) {
		n, err := root.Lookup(ctx, name)
		check.OK(t, err)
		switch n := n.(type) {
		case vfs.File:
			check.Is(t, "n.Stat "+name, errorOf(n.Stat(ctx)), vfs.Corrupt)
			check.Is(t, "n.ReadAt "+name, errorOf(n.ReadAt(ctx, make([]byte, 1), 0)), vfs.Corrupt)
			check.Is(t, "vfs.Open "+name, errorOf(vfs.Open(ctx, n)), vfs.Corrupt)
			check.Is(t, "vfs.VersionOf "+name, errorOf(vfs.VersionOf(ctx, n)), vfs.Corrupt)
			check.Is(t, "n.Truncate "+name, n.Truncate(ctx, 1, vfs.If{}), vfs.Corrupt)
		case vfs.Link:
			check.Is(t, "n.Target "+name, errorOf(n.Target(ctx)), vfs.Corrupt)
		case vfs.Dir:
			check.Is(t, "n.Lookup "+name, errorOf(n.Lookup(ctx, "f")), vfs.Corrupt)
			check.Is(t, "n.Create "+name, errorOf(n.Create(ctx, "f")), vfs.Corrupt)
			check.Is(t, "root.Remove "+name, root.Remove(ctx, name, vfs.If{}), vfs.Corrupt)
		}
	}
	f.commit("master", missing)
	_, err := git.OpenAmbient(f.dir, git.Options{})
	check.Is(t, "git.OpenAmbient", err, vfs.Corrupt)
	f.branch("master", blob)
	_, err = git.OpenAmbient(f.dir, git.Options{})
	check.Is(t, "git.OpenAmbient", err, vfs.Invalid)
}

func deflate(t testing.TB, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := z.Write([]byte(data))
	check.OK(t, err)
	check.OK(t, z.Close())
	return b.Bytes()
}

func TestLooseObjectsThatLie(t *testing.T) {
	f := newFixture(t)
	id := f.blob("the content")
	f.commit("master", f.tree(object.TreeEntry{Name: "f", Mode: filemode.Regular, Hash: id}))
	path := filepath.Join(f.dir, "objects", id.String()[:2], id.String()[2:])
	whole, err := os.ReadFile(path)
	check.OK(t, err)
	for name, data := range map[string][]byte{
		"empty":        {},
		"no zlib":      []byte("blob 11\x00the content"),
		"cut":          whole[:len(whole)-6],
		"another":      deflate(t, "blob 11\x00thE content"),
		"another kind": deflate(t, "tree 11\x00the content"),
		"a commit":     deflate(t, "commit 11\x00the content"),
		"longer":       deflate(t, "blob 11\x00the content and more"),
		"shorter":      deflate(t, "blob 11\x00the"),
		"huge":         deflate(t, fmt.Sprintf("blob %d\x00the content", int64(1)<<60)),
		"large":        deflate(t, fmt.Sprintf("blob %d\x00the content", 10_000)),
		"negative":     deflate(t, "blob -11\x00the content"),
		"no size":      deflate(t, "blob \x00the content"),
		"no end":       deflate(t, strings.Repeat("b", 1000)),
		"delta":        deflate(t, "ofs-delta 11\x00the content"),
	} {
		check.OK(t, os.Remove(path))
		check.OK(t, os.WriteFile(path, data, 0o666))
		file, err := f.open(git.Options{}).Root().Lookup(t.Context(), "f")
		check.OK(t, err)
		_, err = vfs.VersionOf(t.Context(), file.(vfs.File))
		check.Is(t, "vfs.VersionOf "+name, err, vfs.Corrupt)
		_, err = readFile(t.Context(), file.(vfs.File), make([]byte, 100))
		check.Is(t, "readFile "+name, err, vfs.Corrupt)
	}
}

// walkAll returns what each file below d holds, or the code of the error.
func walkAll(ctx context.Context, d vfs.Dir, at string, all map[string]string) {
	for e, err := range d.List(ctx) {
		if err != nil {
			all[at] = "error: " + string(vfs.CodeOf(err))
			return
		}
		path := vfs.Join(at, e.Name)
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			all[path] = "error: " + string(vfs.CodeOf(err))
			continue
		}
		switch n := n.(type) {
		case vfs.Dir:
			walkAll(ctx, n, path, all)
		case vfs.File:
			c, err := vfs.Open(ctx, n)
			if err != nil {
				all[path] = "error: " + string(vfs.CodeOf(err))
				continue
			}
			b := make([]byte, c.Size())
			c.ReadAt(b, 0)
			all[path] = string(b)
			c.Close()
		}
	}
}

// The test changes a byte of a pack or of its index, or cuts the file off. What can still be
// read is right.
func TestPacksThatAreDamaged(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	var parent []plumbing.Hash
	text := strings.Repeat("one line of a text that changes little\n", 200)
	for i := range 6 { // similar files, which git stores as deltas
		text = fmt.Sprintf("line %d\n", i) + text
		tree := vfstest.Tree{"d/other": {Data: strings.Repeat("other\n", i)}}
		for j := range 8 {
			tree[fmt.Sprintf("d/f%d", j)] = vfstest.Node{Data: fmt.Sprint(j) + text}
		}
		parent = []plumbing.Hash{f.commit("master", f.fill(tree), parent...)}
	}
	gitCLI(t, f.dir, "", "repack", "-adfq", "--depth=50")
	gitCLI(t, f.dir, "", "prune-packed", "-q")
	packs, err := filepath.Glob(filepath.Join(f.dir, "objects", "pack", "*.pack"))
	check.OK(t, err)
	if len(packs) != 1 {
		t.Fatalf("packs = %v, want 1 of them", packs)
	}
	want := map[string]string{}
	walkAll(t.Context(), f.open(git.Options{}).Root(), "", want)
	if len(want) != 9 {
		t.Fatalf("files = %v, want 9 of them", want)
	}

	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for _, path := range []string{packs[0], strings.TrimSuffix(packs[0], ".pack") + ".idx"} {
		whole, err := os.ReadFile(path)
		check.OK(t, err)
		check.OK(t, os.Chmod(path, 0o666))
		for i := range 300 {
			data := bytes.Clone(whole)
			at := random.IntN(len(data))
			switch {
			case i < 40:
				data[at%64] ^= byte(1 + random.IntN(255))
			case i < 60:
				data = data[:at]
			default:
				data[at] ^= byte(1 + random.IntN(255))
			}
			check.OK(t, os.WriteFile(path, data, 0o666))
			s, err := git.OpenAmbient(f.dir, git.Options{})
			if err != nil {
				refused++
				if got := vfs.CodeOf(err); !slices.Contains([]vfs.Code{vfs.Corrupt, vfs.Unsupported}, got) {
					t.Errorf("%v: %v, want one of %v", err, got, []vfs.Code{vfs.Corrupt, vfs.Unsupported})
				}
				continue
			}
			got := map[string]string{}
			walkAll(t.Context(), s.Root(), "", got)
			for path, data := range got {
				if wrong, failed := strings.CutPrefix(data, "error: "); failed {
					refused++
					if !slices.Contains([]string{"corrupt", "tooLarge"}, wrong) {
						t.Errorf("%s: %q, want one of %q", path, wrong, []string{"corrupt", "tooLarge"})
					}
				} else {
					if want := want[path]; data != want {
						t.Errorf("%s = %q, want %q", path, data, want)
					}
				}
			}
			check.OK(t, s.Close())
		}
		check.OK(t, os.WriteFile(path, whole, 0o666))
	}
	if refused <= 50 {
		t.Errorf("refused = %d, want more than 50", refused)
	}
}

func TestDeepTrees(t *testing.T) {
	f := newFixture(t)
	tree := f.fill(vfstest.Tree{"f": {Data: "at the bottom"}})
	for range 1500 {
		tree = f.tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: tree})
	}
	first := f.commit("master", tree)
	s := f.work(git.Options{})
	ctx := t.Context()
	d := s.Root()
	for range 1500 {
		n, err := d.Lookup(ctx, "d")
		check.OK(t, err)
		d = n.(vfs.Dir)
	}
	if got, want := content(t, d, "f"), "at the bottom"; got != want {
		t.Errorf(`content(d, "f") = %q, want %q`, got, want)
	}
	_, err := d.Mkdir(ctx, "deeper")
	check.Is(t, "d.Mkdir", err, vfs.Limit)
	put(t, d, "f", "written")
	_, err = s.Commit(ctx, onto("master"))
	check.Is(t, "s.Commit", err, vfs.Limit)
	check.OK(t, s.Discard(ctx))
	f.commit("master", f.fill(vfstest.Tree{}), first)
	_, err = s.Repository().Diff(ctx, first.String(), "master")
	check.Is(t, "s.Repository().Diff", err, vfs.Limit)
}

func TestNamesThatGitKeepsToItself(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("master", f.fill(vfstest.Tree{"f": {Data: "x"}, "l": {Link: "f"}}))
	s := f.work(git.Options{})
	ctx, root := t.Context(), s.Root()
	for _, name := range []string{".git", ".GIT", ".git ", ".git...", ".git. .", "git~1", "GIT~1 ", ".git:", ".git::$INDEX_ALLOCATION"} {
		check.Is(t, "root.Create "+name, errorOf(root.Create(ctx, name)), vfs.Invalid)
		check.Is(t, "root.Mkdir "+name, errorOf(root.Mkdir(ctx, name)), vfs.Invalid)
		check.Is(t, "root.Replace "+name, errorOf(root.Replace(ctx, name, strings.NewReader(""), vfs.If{})), vfs.Invalid)
		check.Is(t, "root.Rename "+name, root.Rename(ctx, "f", root, name, vfs.If{}, vfs.If{}), vfs.Invalid)
		check.Is(t, "vfs.Symlink "+name, vfs.Symlink(ctx, root, name, "f"), vfs.Invalid)
	}
	for _, name := range []string{".gitmodules", ".GitModules", "gitmod~1", "GI7EBA~1", "gi7eb~10", ".gitmodules ."} {
		check.Is(t, "vfs.Symlink "+name, vfs.Symlink(ctx, root, name, "f"), vfs.Invalid)
		check.Is(t, "root.Rename "+name, root.Rename(ctx, "l", root, name, vfs.If{}, vfs.If{}), vfs.Invalid)
	}
	for _, name := range []string{"git", ".gitignore", ".github", "git~2", ".gita", "..git", ".git-x", "gitmod~5", "gi7eba~0", ".gitattributes", ".mailmap"} {
		put(t, root, name, "x\n")
	}
	_, err := s.Commit(ctx, onto("fine"))
	check.OK(t, err)
	sound(t, f.dir)
}

func TestFilesThatGitReads(t *testing.T) {
	needGit(t)
	for name, c := range map[string]struct {
		path, data string
		fine       bool
	}{
		"modules":         {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a\n", true},
		"relative":        {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n", true},
		"ssh":             {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = git@example.org:a.git\n", true},
		"option as url":   {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = --upload-pack=touch\n", false},
		"option as path":  {".gitmodules", "[submodule \"a\"]\n\tpath = -x\n\turl = https://example.org/a\n", false},
		"command":         {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a\n\tupdate = !sh\n", false},
		"name that rises": {".gitmodules", "[submodule \"../../hooks\"]\n\tpath = a\n\turl = https://example.org/a\n", false},
		"no host":         {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https:///x\n", false},
		"new line":        {".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/%0ahost=x\n", false},
		"below":           {"d/.gitmodules", "[submodule \"a\"]\n\turl = -x\n", false},
		"other case":      {".GITMODULES", "[submodule \"a\"]\n\turl = -x\n", false},
		"attributes":      {".gitattributes", "* text=auto\n", true},
		"long line":       {".gitattributes", strings.Repeat("a", 3000) + " text\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("master", f.fill(vfstest.Tree{"f": {Data: c.data}, "d": {Dir: true}, "moved": {Data: c.data}}))
			s := f.work(git.Options{})
			put(t, s.Root(), c.path, c.data)
			_, err := s.Commit(t.Context(), onto("x"))
			if got := err == nil; got != c.fine {
				t.Fatalf("the commit succeeds = %v (%v), want %v", got, err, c.fine)
			}
			check.OK(t, s.Discard(t.Context()))
			if !c.fine {
				check.Is(t, "s.Commit", err, vfs.Invalid)
				check.OK(t, s.Root().Rename(t.Context(), "moved", s.Root(), strings.TrimPrefix(c.path, "d/"), vfs.If{}, vfs.If{}))
				check.Is(t, "commit after the file was moved there", errorOf(s.Commit(t.Context(), onto("y"))), vfs.Invalid)
			}
			sound(t, f.dir)
		})
	}
}

// TestLoosePretender reads loose objects whose content has the right length and does not
// match their names. Short objects are read whole, long ones are copied.
func TestLoosePretender(t *testing.T) {
	for _, size := range []int{10, 5 << 20} {
		f := newFixture(t)
		said, held := strings.Repeat("a", size), strings.Repeat("b", size)
		id := plumbing.ComputeHash(plumbing.BlobObject, []byte(said))
		path := filepath.Join(f.dir, "objects", id.String()[:2], id.String()[2:])
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		fmt.Fprintf(w, "blob %d\x00%s", size, held)
		check.OK(t, w.Close())
		check.OK(t, os.WriteFile(path, packed.Bytes(), 0o444))
		f.commit("main", f.tree(object.TreeEntry{Name: "f", Mode: filemode.Regular, Hash: id}))
		file, err := vfs.WalkFile(t.Context(), f.open(git.Options{Revision: "main"}).Root(), "f")
		check.OK(t, err)
		_, err = vfs.Open(t.Context(), file)
		check.Is(t, fmt.Sprintf("%d bytes", size), err, vfs.Corrupt)
		_, err = vfs.VersionOf(t.Context(), file)
		check.Is(t, fmt.Sprintf("%d bytes", size), err, vfs.Corrupt)
	}
}

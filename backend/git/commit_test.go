package git_test

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func TestCommit(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	tree, module := f.withSubmodule(f.fill(sample))
	old := f.commit("main", tree)
	before := everything(t, f.dir)
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()

	held := sub(t, root, "src/x")
	put(t, root, "README", "written\n")
	put(t, root, "src/new.go", "package a\n")
	check.OK(t, vfs.Symlink(ctx, root, "ln", "src/new.go"))
	_, err := vfs.Install(ctx, sub(t, root, "src"), "b.go", strings.NewReader("#!/bin/sh\n"), true, vfs.If{})
	check.OK(t, err)
	check.OK(t, root.Rename(ctx, "other", sub(t, root, "src"), "moved", vfs.If{}, vfs.If{}))
	check.OK(t, sub(t, root, "only").Remove(ctx, "one", vfs.If{}))
	_, err = root.Mkdir(ctx, "hollow")
	check.OK(t, err)
	_, err = sub(t, root, "hollow").Mkdir(ctx, "more")
	check.OK(t, err)
	z, err := vfs.WalkFile(ctx, root, "src/x/y/z")
	check.OK(t, err)
	_, err = z.WriteAt(ctx, []byte("DEEP"), 0, vfs.If{})
	check.OK(t, err)

	if !s.Changed(t) {
		t.Fatal("s.Changed() = false, want true")
	}
	if got := everything(t, f.dir); !reflect.DeepEqual(got, before) {
		t.Fatalf("everything(f.dir) = %v, want %v: a change has touched the repository before its commit", got, before)
	}
	changes, err := s.Changes(ctx)
	check.OK(t, err)
	if got := everything(t, f.dir); !reflect.DeepEqual(got, before) {
		t.Fatalf("everything(f.dir) = %v, want %v: asking for the changes has touched the repository", got, before)
	}

	id, err := s.Commit(ctx, onto("main"))
	check.OK(t, err)
	sound(t, f.dir)
	if got := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main")); got != id {
		t.Fatalf("git rev-parse main = %q, want %q", got, id)
	}
	if got, want := s.Revision(), (git.Revision{Ref: "refs/heads/main", Commit: id}); got != want {
		t.Fatalf("s.Revision() = %v, want %v", got, want)
	}
	if s.Changed(t) {
		t.Fatal("s.Changed() = true, want false")
	}
	if got, want := strings.TrimSpace(gitCLI(t, f.dir, "", "log", "-1", "--format=%P%n%an <%ae>%n%B", "main")), old.String()+"\nA U Thor <a@example.org>\na change\n\nand why"; got != want {
		t.Errorf("git log -1 --format=%%P%%n%%an <%%ae>%%n%%B main = %q, want %q", got, want)
	}
	if got, want := strings.TrimSpace(gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")), strings.Join([]string{
		"100644 .gitmodules", "100644 README", "120000 link", "120000 ln", "100755 run", "100644 src-a", "100644 src/a.go", "100755 src/b.go",
		"100644 src/moved/keep", "100644 src/new.go", "100644 src/x/y/z", "160000 vendor",
	}, "\n"); got != want {
		t.Errorf("git ls-tree -r --format=%%(objectmode) %%(path) main = %q, want %q", got, want)
	}
	if got, part := gitCLI(t, f.dir, "", "ls-tree", "main", "vendor"), module.String(); !strings.Contains(got, part) {
		t.Errorf("git ls-tree main vendor = %q, want it to contain %q", got, part)
	}
	if got, want := gitCLI(t, f.dir, "", "show", "main:src/x/y/z"), "DEEP\n"; got != want {
		t.Errorf("git show main:src/x/y/z = %q, want %q", got, want)
	}

	committed, err := s.Repository().Diff(ctx, old.String(), id)
	check.OK(t, err)
	moves := map[string]string{"src/moved: renamed from nothing to directory": "src/moved/keep: added from nothing to file\nother/keep: removed from file to nothing"}
	var want []string // what Changes said before, with moves as Git has them
	for _, c := range shapes(changes) {
		want = append(want, strings.Split(cmp.Or(moves[c], c), "\n")...)
	}
	slices.Sort(want)
	if got := shapes(committed); !reflect.DeepEqual(got, want) {
		t.Errorf("shapes(committed) = %v, want %v, as Changes said before", got, want)
	}

	// Open nodes stay open, and new directories stay.
	_, err = held.Stat(ctx)
	check.OK(t, err)
	_, err = sub(t, root, "hollow").Lookup(ctx, "more")
	check.OK(t, err)
	if got, want := content(t, root, "src/moved/keep"), "kept\n"; got != want {
		t.Errorf(`content(root, "src/moved/keep") = %q, want %q`, got, want)
	}
	_, err = s.Commit(ctx, onto("main"))
	check.Is(t, "commit of no changes", err, vfs.Invalid)

	// Commit again, with a file in a directory that was empty.
	put(t, root, "hollow/more/f", "filled\n")
	put(t, root, "src/moved/keep", "kept on\n")
	_, err = s.Commit(ctx, onto(""))
	check.OK(t, err)
	sound(t, f.dir)
	if got, want := gitCLI(t, f.dir, "", "show", "main:hollow/more/f"), "filled\n"; got != want {
		t.Errorf("git show main:hollow/more/f = %q, want %q", got, want)
	}
	if got, want := gitCLI(t, f.dir, "", "show", "main:src/moved/keep"), "kept on\n"; got != want {
		t.Errorf("git show main:src/moved/keep = %q, want %q", got, want)
	}
	other := f.open(git.Options{Revision: "main"})
	if got, want := content(t, other.Root(), "hollow/more/f"), "filled\n"; got != want {
		t.Errorf(`content(other.Root(), "hollow/more/f") = %q, want %q`, got, want)
	}
}

func TestCommitOfAnEmptyRepository(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "--bare", "-b", "trunk")
	s, err := openWork(dir, git.Options{})
	check.OK(t, err)
	defer s.Close()
	if got, want := s.Revision(), (git.Revision{Ref: "refs/heads/trunk"}); got != want {
		t.Fatalf("s.Revision() = %v, want %v", got, want)
	}
	put(t, s.Root(), "f", "first\n")
	_, err = s.Commit(t.Context(), onto(""))
	check.OK(t, err)
	sound(t, dir)
	if got, want := gitCLI(t, dir, "", "show", "trunk:f"), "first\n"; got != want {
		t.Errorf("git show trunk:f = %q, want %q", got, want)
	}
	check.OK(t, s.Root().Remove(t.Context(), "f", vfs.If{}))
	_, err = s.Commit(t.Context(), onto(""))
	check.OK(t, err)
	sound(t, dir)
	if got := gitCLI(t, dir, "", "ls-tree", "trunk"); got != "" {
		t.Errorf("git ls-tree trunk = %q, want nothing", got)
	}
}

func TestCommitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(o *git.CommitOptions)
		code vfs.Code
	}{
		"no message":         {func(o *git.CommitOptions) { o.Message = " \n" }, vfs.Invalid},
		"NUL in it":          {func(o *git.CommitOptions) { o.Message = "a\x00b" }, vfs.Invalid},
		"no author":          {func(o *git.CommitOptions) { o.Author.Name = "" }, vfs.Invalid},
		"an author's line":   {func(o *git.CommitOptions) { o.Author.Name = "a\nparent 0" }, vfs.Invalid},
		"an address in two":  {func(o *git.CommitOptions) { o.Author.Email = "a> <b" }, vfs.Invalid},
		"a tag":              {func(o *git.CommitOptions) { o.Ref = "refs/tags/v1" }, vfs.Invalid},
		"HEAD":               {func(o *git.CommitOptions) { o.Ref = "HEAD" }, vfs.Invalid},
		"a way out":          {func(o *git.CommitOptions) { o.Ref = "../../config" }, vfs.Invalid},
		"a lock":             {func(o *git.CommitOptions) { o.Ref = "x.lock" }, vfs.Invalid},
		"no id":              {func(o *git.CommitOptions) { o.Old = "main" }, vfs.Invalid},
		"another id":         {func(o *git.CommitOptions) { o.Old = strings.Repeat("1", 40) }, vfs.Conflict},
		"below a branch":     {func(o *git.CommitOptions) { o.Ref = "main/below" }, vfs.Conflict},
		"above a branch":     {func(o *git.CommitOptions) { o.Ref = "topic" }, vfs.Conflict},
		"a branch elsewhere": {func(o *git.CommitOptions) { o.Ref = "topic/a" }, vfs.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			for _, packed := range []bool{false, true} {
				f := newFixture(t)
				f.commit("main", f.fill(sample))
				f.commit("topic/a", f.fill(vfstest.Tree{"f": {Data: "x"}}))
				if packed {
					needGit(t)
					gitCLI(t, f.dir, "", "pack-refs", "--all")
				}
				s := f.work(git.Options{Revision: "main"})
				put(t, s.Root(), "f", "x")
				o := onto("main")
				c.do(&o)
				refs := f.refs()
				_, err := s.Commit(t.Context(), o)
				check.Is(t, "s.Commit", err, c.code)
				if got := f.refs(); !reflect.DeepEqual(got, refs) {
					t.Errorf("f.refs() = %v, want %v", got, refs)
				}
				if !s.Changed(t) {
					t.Error("s.Changed() = false, want true")
				}
				_, err = s.Commit(t.Context(), onto("main"))
				if err != nil {
					t.Fatalf("a commit after one that was refused: %v", err)
				}
			}
		})
	}
}

func TestDiscard(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	var grown vfs.Effect
	counting := vfs.OnCommit(ctx, func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		got, err := change()
		grown.Bytes += got.Bytes
		grown.Nodes += got.Nodes
		return got, err
	})
	_, err := root.Replace(counting, "README", strings.NewReader("longer than before"), vfs.If{})
	check.OK(t, err)
	check.OK(t, root.Remove(counting, "run", vfs.If{}))
	d, err := root.Mkdir(counting, "d")
	check.OK(t, err)
	check.OK(t, root.Rename(counting, "src", d, "inside", vfs.If{}, vfs.If{}))
	_, err = sub(t, root, "d/inside/x").Create(counting, "made")
	check.OK(t, err)
	if grown == (vfs.Effect{}) {
		t.Fatal("the changes have no effect on what is used")
	}

	check.OK(t, s.Discard(counting))
	if grown != (vfs.Effect{}) {
		t.Errorf("the effect of all changes and of their discarding = %+v, want none", grown)
	}
	if s.Changed(t) {
		t.Error("s.Changed() = true, want false")
	}
	if got, want := content(t, root, "README"), "read me\n"; got != want {
		t.Errorf(`content(root, "README") = %q, want %q`, got, want)
	}
	if got, want := content(t, root, "src/x/y/z"), "deep\n"; got != want {
		t.Errorf(`content(root, "src/x/y/z") = %q, want %q`, got, want)
	}
	_, err = d.Stat(ctx)
	check.Is(t, "d.Stat", err, vfs.Stale)
	check.OK(t, s.Discard(ctx))
}

func TestSubmodules(t *testing.T) {
	f := newFixture(t)
	tree, _ := f.withSubmodule(f.fill(sample))
	f.commit("main", tree)
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	d := sub(t, root, "vendor")
	for range d.List(ctx) {
		t.Error("a submodule holds something")
	}
	for what, err := range map[string]error{
		"Create":  errorOf(d.Create(ctx, "f")),
		"Mkdir":   errorOf(d.Mkdir(ctx, "f")),
		"Replace": errorOf(d.Replace(ctx, "f", strings.NewReader(""), vfs.If{})),
		"Symlink": vfs.Symlink(ctx, d, "f", "x"),
		"into it": root.Rename(ctx, "README", d, "f", vfs.If{}, vfs.If{}),
		"Remove":  root.Remove(ctx, "vendor", vfs.If{}),
		"Rename":  root.Rename(ctx, "vendor", root, "v", vfs.If{}, vfs.If{}),
	} {
		if !errors.Is(err, vfs.ReadOnly) {
			t.Fatalf("%s: %v, want %v", what, err, vfs.ReadOnly)
		}
		if got := err.Error(); strings.Contains(got, "submodule") {
			t.Errorf("%s: the error is %q, want it not to contain %q", what, got, "submodule")
		}
	}
	if s.Changed(t) {
		t.Error("s.Changed() = true, want false")
	}
}

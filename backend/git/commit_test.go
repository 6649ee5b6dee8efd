package git_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
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
	require.NoError(t, vfs.Symlink(ctx, root, "ln", "src/new.go"))
	_, err := vfs.Install(ctx, sub(t, root, "src"), "b.go", strings.NewReader("#!/bin/sh\n"), true, vfs.If{})
	require.NoError(t, err)
	require.NoError(t, root.Rename(ctx, "other", sub(t, root, "src"), "moved", vfs.If{}, vfs.If{}))
	require.NoError(t, sub(t, root, "only").Remove(ctx, "one", vfs.If{}))
	_, err = root.Mkdir(ctx, "hollow")
	require.NoError(t, err)
	_, err = sub(t, root, "hollow").Mkdir(ctx, "more")
	require.NoError(t, err)
	z, err := vfs.WalkFile(ctx, root, "src/x/y/z")
	require.NoError(t, err)
	_, err = z.WriteAt(ctx, []byte("DEEP"), 0, vfs.If{})
	require.NoError(t, err)

	require.True(t, s.Changed(t))
	require.Equal(t, before, everything(t, f.dir), "nothing is touched before the commit")
	changes, err := s.Changes(ctx)
	require.NoError(t, err)
	require.Equal(t, before, everything(t, f.dir), "nor by asking for the changes")

	id, err := s.Commit(ctx, onto("main"))
	require.NoError(t, err)
	sound(t, f.dir)
	require.Equal(t, id, strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main")))
	require.Equal(t, git.Revision{Ref: "refs/heads/main", Commit: id}, s.Revision())
	require.False(t, s.Changed(t))
	assert.Equal(t, old.String()+"\nA U Thor <a@example.org>\na change\n\nand why",
		strings.TrimSpace(gitCLI(t, f.dir, "", "log", "-1", "--format=%P%n%an <%ae>%n%B", "main")))
	assert.Equal(t, strings.Join([]string{
		"100644 .gitmodules", "100644 README", "120000 link", "120000 ln", "100755 run", "100644 src-a", "100644 src/a.go", "100755 src/b.go",
		"100644 src/moved/keep", "100644 src/new.go", "100644 src/x/y/z", "160000 vendor",
	}, "\n"), strings.TrimSpace(gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")))
	assert.Contains(t, gitCLI(t, f.dir, "", "ls-tree", "main", "vendor"), module.String())
	assert.Equal(t, "DEEP\n", gitCLI(t, f.dir, "", "show", "main:src/x/y/z"))

	committed, err := s.Repository().Diff(ctx, old.String(), id)
	require.NoError(t, err)
	assert.Equal(t, shapes(changes), shapesOf(committed), "what was shown before is what was committed")

	// What was open stays open, and what was made stays.
	_, err = held.Stat(ctx)
	require.NoError(t, err)
	_, err = sub(t, root, "hollow").Lookup(ctx, "more")
	require.NoError(t, err)
	assert.Equal(t, "kept\n", content(t, root, "src/moved/keep"))
	_, err = s.Commit(ctx, onto("main"))
	require.ErrorIs(t, err, vfs.Invalid, "nothing has changed")

	// And again, with something in what was empty.
	put(t, root, "hollow/more/f", "filled\n")
	put(t, root, "src/moved/keep", "kept on\n")
	_, err = s.Commit(ctx, onto(""))
	require.NoError(t, err)
	sound(t, f.dir)
	assert.Equal(t, "filled\n", gitCLI(t, f.dir, "", "show", "main:hollow/more/f"))
	assert.Equal(t, "kept on\n", gitCLI(t, f.dir, "", "show", "main:src/moved/keep"))
	other := f.open(git.Options{Revision: "main"})
	assert.Equal(t, "filled\n", content(t, other.Root(), "hollow/more/f"))
}

func TestCommitOfAnEmptyRepository(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "--bare", "-b", "trunk")
	s, err := openWork(dir, git.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, git.Revision{Ref: "refs/heads/trunk"}, s.Revision())
	put(t, s.Root(), "f", "first\n")
	_, err = s.Commit(t.Context(), onto(""))
	require.NoError(t, err)
	sound(t, dir)
	assert.Equal(t, "first\n", gitCLI(t, dir, "", "show", "trunk:f"))
	require.NoError(t, s.Root().Remove(t.Context(), "f", vfs.If{}))
	_, err = s.Commit(t.Context(), onto(""))
	require.NoError(t, err)
	sound(t, dir)
	assert.Empty(t, gitCLI(t, dir, "", "ls-tree", "trunk"))
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
				require.ErrorIs(t, err, c.code)
				assert.Equal(t, refs, f.refs())
				assert.True(t, s.Changed(t))
				_, err = s.Commit(t.Context(), onto("main"))
				require.NoError(t, err, "and afterwards it can be made right")
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
	require.NoError(t, err)
	require.NoError(t, root.Remove(counting, "run", vfs.If{}))
	d, err := root.Mkdir(counting, "d")
	require.NoError(t, err)
	require.NoError(t, root.Rename(counting, "src", d, "inside", vfs.If{}, vfs.If{}))
	_, err = sub(t, root, "d/inside/x").Create(counting, "made")
	require.NoError(t, err)
	require.NotZero(t, grown)

	require.NoError(t, s.Discard(counting))
	assert.Zero(t, grown, "the tree is what it was")
	assert.False(t, s.Changed(t))
	assert.Equal(t, "read me\n", content(t, root, "README"))
	assert.Equal(t, "deep\n", content(t, root, "src/x/y/z"))
	_, err = d.Stat(ctx)
	require.ErrorIs(t, err, vfs.Stale)
	require.NoError(t, s.Discard(ctx))
}

func TestSubmodules(t *testing.T) {
	f := newFixture(t)
	tree, module := f.withSubmodule(f.fill(sample))
	f.commit("main", tree)
	s := f.work(git.Options{Revision: "main"})
	ctx, root := t.Context(), s.Root()
	all, err := s.Repository().Submodules(ctx)
	require.NoError(t, err)
	assert.Equal(t, []git.Submodule{{Path: "vendor", Commit: module.String(), URL: "https://example.org/v"}}, all)

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
		require.ErrorIs(t, err, vfs.ReadOnly, what)
		assert.NotContains(t, err.Error(), "submodule", what)
	}
	assert.False(t, s.Changed(t))
}

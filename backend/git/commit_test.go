package git_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
)

var author = git.Author{Name: "A U Thor", Email: "a@example.org"}

func onto(ref string) git.CommitOptions {
	return git.CommitOptions{Message: "a change\n\nand why", Author: author, Ref: ref}
}

func put(t testing.TB, d vfs.Dir, path, data string) {
	t.Helper()
	parent, name, release, err := vfs.WalkParent(t.Context(), d, path)
	require.NoError(t, err)
	defer release()
	_, err = parent.Replace(t.Context(), name, strings.NewReader(data), vfs.If{})
	require.NoError(t, err)
}

func content(t testing.TB, d vfs.Dir, path string) string {
	t.Helper()
	f, err := vfs.WalkFile(t.Context(), d, path)
	require.NoError(t, err)
	buf := make([]byte, 1<<20)
	n, err := readFile(t.Context(), f, buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func sub(t testing.TB, d vfs.Dir, path string) vfs.Dir {
	t.Helper()
	below, err := vfs.WalkDir(t.Context(), d, path)
	require.NoError(t, err)
	return below
}

// sound says that git finds nothing wrong with a repository.
func sound(t testing.TB, dir string) {
	t.Helper()
	gitCLI(t, dir, "", "fsck", "--strict", "--full", "--no-dangling")
}

// everything returns all files of a repository with their contents and times.
func everything(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = info.ModTime().String() + "\n" + string(data)
		return err
	}))
	return all
}

var sample = vfstest.Tree{
	"README":     {Data: "read me\n"},
	"run":        {Data: "#!/bin/sh\n", Exec: true},
	"link":       {Link: "README"},
	"src/a.go":   {Data: "package a\n"},
	"src/b.go":   {Data: "package b\n"},
	"src/x/y/z":  {Data: "deep\n"},
	"src-a":      {Data: "sorts before src/\n"},
	"only/one":   {Data: "one\n"},
	"other/keep": {Data: "kept\n"},
}

// withSubmodule adds a submodule called vendor to a tree.
func (f *fixture) withSubmodule(tree plumbing.Hash) (root, module plumbing.Hash) {
	f.Helper()
	module = plumbing.NewHash("1234567890123456789012345678901234567890")
	modules := f.blob("[submodule \"v\"]\n\tpath = vendor\n\turl = https://example.org/v\n")
	o, err := f.repo.TreeObject(tree)
	require.NoError(f, err)
	return f.tree(append(o.Entries,
		object.TreeEntry{Name: "vendor", Mode: filemode.Submodule, Hash: module},
		object.TreeEntry{Name: ".gitmodules", Mode: filemode.Regular, Hash: modules})...), module
}

func TestCommit(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	tree, module := f.withSubmodule(f.fill(sample))
	old := f.commit("main", tree)
	before := everything(t, f.dir)
	s := f.open(git.Options{Revision: "main", Writable: true})
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

	require.True(t, s.Changed())
	require.Equal(t, before, everything(t, f.dir), "nothing is touched before the commit")
	changes, err := s.Changes(ctx)
	require.NoError(t, err)
	require.Equal(t, before, everything(t, f.dir), "nor by asking for the changes")

	id, err := s.Commit(ctx, onto("main"))
	require.NoError(t, err)
	sound(t, f.dir)
	require.Equal(t, id, strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main")))
	require.Equal(t, git.Revision{Ref: "refs/heads/main", Commit: id}, s.Revision())
	require.False(t, s.Changed())
	assert.Equal(t, old.String()+"\nA U Thor <a@example.org>\na change\n\nand why",
		strings.TrimSpace(gitCLI(t, f.dir, "", "log", "-1", "--format=%P%n%an <%ae>%n%B", "main")))
	assert.Equal(t, strings.Join([]string{
		"100644 .gitmodules", "100644 README", "120000 link", "120000 ln", "100755 run", "100644 src-a", "100644 src/a.go", "100755 src/b.go",
		"100644 src/moved/keep", "100644 src/new.go", "100644 src/x/y/z", "160000 vendor",
	}, "\n"), strings.TrimSpace(gitCLI(t, f.dir, "", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")))
	assert.Contains(t, gitCLI(t, f.dir, "", "ls-tree", "main", "vendor"), module.String())
	assert.Equal(t, "DEEP\n", gitCLI(t, f.dir, "", "show", "main:src/x/y/z"))

	committed, err := s.Diff(ctx, old.String(), id)
	require.NoError(t, err)
	assert.Equal(t, changes, committed, "what was shown before is what was committed")

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
	s, err := git.OpenAmbient(dir, git.Options{Writable: true})
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
				s := f.open(git.Options{Revision: "main", Writable: true})
				put(t, s.Root(), "f", "x")
				o := onto("main")
				c.do(&o)
				refs := f.refs()
				_, err := s.Commit(t.Context(), o)
				require.ErrorIs(t, err, c.code)
				assert.Equal(t, refs, f.refs())
				assert.True(t, s.Changed())
				_, err = s.Commit(t.Context(), onto("main"))
				require.NoError(t, err, "and afterwards it can be made right")
			}
		})
	}
}

// refs returns all refs and locks of the repository as they are stored.
func (f *fixture) refs() map[string]string {
	f.Helper()
	all := map[string]string{}
	require.NoError(f, filepath.WalkDir(filepath.Join(f.dir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data, err := os.ReadFile(path)
			all[path] = string(data)
			return err
		}
		return err
	}))
	return all
}

func TestCommitMovesOnlyWhatItSaw(t *testing.T) {
	f := newFixture(t)
	first := f.commit("main", f.fill(sample))
	s := f.open(git.Options{Revision: "main", Writable: true})
	put(t, s.Root(), "f", "mine")
	theirs := f.commit("main", f.fill(vfstest.Tree{"f": {Data: "theirs"}}), first)
	_, err := s.Commit(t.Context(), onto("main"))
	require.ErrorIs(t, err, vfs.Conflict)
	assert.Equal(t, "mine", content(t, s.Root(), "f"))
	o := onto("main")
	o.Old = theirs.String()
	_, err = s.Commit(t.Context(), o)
	require.ErrorIs(t, err, vfs.Conflict, "their commit is not dropped, though the host knows of it")
	assert.Contains(t, err.Error(), "mount it anew")
	ahead := f.commit("ahead", f.fill(vfstest.Tree{"f": {Data: "ahead"}}), theirs)
	s = f.open(git.Options{Revision: "ahead", Writable: true})
	put(t, s.Root(), "f", "mine")
	id, err := s.Commit(t.Context(), o)
	require.NoError(t, err, "what is upon %s holds all of the branch", ahead)
	ref, err := f.repo.Reference("refs/heads/main", true)
	require.NoError(t, err)
	assert.Equal(t, id, ref.Hash().String())

	lock := filepath.Join(f.dir, "refs", "heads", "main.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o666))
	put(t, s.Root(), "f", "again")
	_, err = s.Commit(t.Context(), onto("main"))
	require.ErrorIs(t, err, vfs.Busy)
	assert.FileExists(t, lock, "another's lock stays")
	require.NoError(t, os.Remove(lock))
	_, err = s.Commit(t.Context(), onto("main"))
	require.NoError(t, err)
	assert.NoFileExists(t, lock)
}

// Commits of git and of stores move one branch at the same time: each that succeeded is in
// its history.
func TestCommitBesideGit(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	var mu sync.Mutex
	var made []string
	add := func(id string) { mu.Lock(); defer mu.Unlock(); made = append(made, id) }
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 40 {
			old := strings.TrimSpace(gitCLI(t, f.dir, "", "rev-parse", "main"))
			id := strings.TrimSpace(gitCLI(t, f.dir, "theirs\n", "commit-tree", "-p", old, old+"^{tree}"))
			if gitCommand(f.dir, "update-ref", "refs/heads/main", id, old).Run() == nil {
				add(id)
			}
			if i%10 == 0 {
				gitCommand(f.dir, "pack-refs", "--all").Run()
			}
		}
	})
	for i := range 2 {
		wg.Go(func() {
			for range 40 {
				s, err := git.OpenAmbient(f.dir, git.Options{Revision: "main", Writable: true})
				if !assert.NoError(t, err) {
					return
				}
				put(t, s.Root(), "count"+string(rune('a'+i)), s.Revision().Commit)
				id, err := s.Commit(t.Context(), onto("main"))
				if err == nil {
					add(id)
				} else if code := vfs.CodeOf(err); code != vfs.Conflict && code != vfs.Busy {
					t.Errorf("Commit: %v", err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	history := gitCLI(t, f.dir, "", "rev-list", "main")
	for _, id := range made {
		assert.Contains(t, history, id)
	}
	assert.Greater(t, len(made), 10)
	sound(t, f.dir)
}

func TestCommitLeavesWorkingTreesAlone(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("committed\n"), 0o666))
	gitCLI(t, dir, "", "add", "f")
	gitCLI(t, dir, "", "commit", "-qm", "first")
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, dir, "", "worktree", "add", "-q", "-b", "side", linked)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("being written\n"), 0o666))

	for _, at := range []string{dir, filepath.Join(dir, ".git"), linked, filepath.Join(linked, ".git")} {
		s, err := git.OpenAmbient(at, git.Options{Writable: true})
		require.NoError(t, err, at)
		assert.Equal(t, "committed\n", content(t, s.Root(), "f"))
		want := "refs/heads/main"
		if strings.HasPrefix(at, linked) {
			want = "refs/heads/side"
		}
		assert.Equal(t, want, s.Revision().Ref)
		put(t, s.Root(), "f", "by "+filepath.Base(at))
		for _, branch := range []string{"main", "side", ""} {
			_, err = s.Commit(t.Context(), onto(branch))
			require.ErrorIs(t, err, vfs.Busy, "%s at %s", branch, at)
		}
		_, err = s.Commit(t.Context(), onto("agent/"+strings.TrimPrefix(filepath.Base(at), ".")+filepath.Base(filepath.Dir(at))))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	assert.Equal(t, " M f\n", gitCLI(t, dir, "", "status", "--porcelain"))
	assert.Empty(t, gitCLI(t, linked, "", "status", "--porcelain"))
	assert.Contains(t, gitCLI(t, dir, "", "reflog", "show", "agent/linked"+filepath.Base(filepath.Dir(linked))), "commit: a change")
	sound(t, dir)
}

func TestDiscard(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.open(git.Options{Revision: "main", Writable: true})
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
	assert.False(t, s.Changed())
	assert.Equal(t, "read me\n", content(t, root, "README"))
	assert.Equal(t, "deep\n", content(t, root, "src/x/y/z"))
	_, err = d.Stat(ctx)
	require.ErrorIs(t, err, vfs.Stale)
	require.NoError(t, s.Discard(ctx))
}

// A write while a commit is being made is in it or left for the next, and never lost.
func TestWritesDuringCommits(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	s := f.open(git.Options{Revision: "main", Writable: true})
	root := s.Root()
	file, err := vfs.WalkFile(t.Context(), root, "src/a.go")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			_, err := vfs.Append(t.Context(), file, []byte("x"), vfs.If{})
			assert.NoError(t, err)
			put(t, root, "src/f"+string(rune('a'+i%7)), strings.Repeat("y", i))
		}
	})
	for range 20 {
		_, err := s.Commit(t.Context(), onto("main"))
		if err != nil && vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("Commit: %v", err)
		}
	}
	wg.Wait()
	want := "package a\n" + strings.Repeat("x", 300)
	assert.Equal(t, want, content(t, root, "src/a.go"))
	if s.Changed() {
		_, err = s.Commit(t.Context(), onto("main"))
		require.NoError(t, err)
	}
	assert.Equal(t, want, gitCLI(t, f.dir, "", "show", "main:src/a.go"))
	assert.Equal(t, strings.Repeat("y", 299), gitCLI(t, f.dir, "", "show", "main:src/f"+string(rune('a'+299%7))))
	sound(t, f.dir)
}

func TestSubmodules(t *testing.T) {
	f := newFixture(t)
	tree, module := f.withSubmodule(f.fill(sample))
	f.commit("main", tree)
	s := f.open(git.Options{Revision: "main", Writable: true})
	ctx, root := t.Context(), s.Root()
	all, err := s.Submodules(ctx)
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
	assert.False(t, s.Changed())
}

func errorOf[T any](_ T, err error) error { return err }

// TestWrittenWhileCommitting writes again what is being committed, in the moment in which
// the commit is made: the commit has the one, and the other waits for the next.
func TestWrittenWhileCommitting(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"a": {Data: "first"}, "b": {Data: "b"}, "d/c": {Data: "c"}, "e": {Data: "e"}}))
	s := f.open(git.Options{Revision: "main", Writable: true})
	root := s.Root()
	put(t, root, "e", "......")
	e, err := vfs.WalkFile(t.Context(), root, "e")
	require.NoError(t, err)
	defer e.Close()
	_, err = e.WriteAt(t.Context(), []byte("second"), 0, vfs.If{})
	require.NoError(t, err)
	put(t, root, "a", "second")
	put(t, root, "b", "same")
	put(t, root, "d/c", "second")
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		put(t, root, "a", "third")
		put(t, root, "d/c", "third")
		_, err := e.WriteAt(t.Context(), []byte("3"), 0, vfs.If{})
		require.NoError(t, err)
		return change()
	})
	_, err = s.Commit(ctx, onto("other"))
	require.NoError(t, err)
	read := func(d vfs.Dir, path string) string {
		file, err := vfs.WalkFile(t.Context(), d, path)
		require.NoError(t, err)
		defer file.Close()
		b := make([]byte, 10)
		n, err := file.ReadAt(t.Context(), b, 0)
		require.ErrorIs(t, err, io.EOF)
		return string(b[:n])
	}
	for path, want := range map[string]string{"a": "third", "b": "same", "d/c": "third", "e": "3econd"} {
		assert.Equal(t, want, read(root, path), "what the store shows at %s", path)
	}
	committed := f.open(git.Options{Revision: "other"}).Root()
	for path, want := range map[string]string{"a": "second", "b": "same", "d/c": "second", "e": "second"} {
		assert.Equal(t, want, read(committed, path), "what was committed at %s", path)
	}
	changes, err := s.Changes(t.Context())
	require.NoError(t, err)
	assert.Len(t, changes, 3)
}

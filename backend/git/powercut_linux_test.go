package git_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/git"
	"capd/tests/powercut"
	"capd/vfs"
	"capd/vfs/vfstest"
)

func init() { other = makeCommits }

// files maps the paths of the files of a branch to their contents.
type files map[string]string

// commits lists the commits in their order. Each adds or changes one file.
var commits = []struct{ ref, path, data string }{
	{"refs/heads/main", "src/a", "2"},
	{"refs/heads/team/new/one", "src/c", "3"},
	{"refs/heads/main", "deep/er/d", "4"},
}

// branchesAfter returns the branches after the first n commits.
func branchesAfter(n int) map[string]files {
	all, now := map[string]files{"refs/heads/main": {"src/a": "1", "b": "b"}}, files{"src/a": "1", "b": "b"}
	for _, c := range commits[:n] {
		now[c.path] = c.data
		all[c.ref] = maps.Clone(now)
	}
	return all
}

// makeCommits makes the commits, and prints the data of each when Commit has returned.
func makeCommits(dir string) error {
	ctx := context.Background()
	s, err := openWork(dir, git.Options{Revision: "main"})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, c := range commits {
		if err := foreign(dir, c.data); err != nil {
			return err
		}
		if err := write(ctx, s.Root(), c.path, c.data); err != nil {
			return err
		}
		old, err := tip(dir, c.ref)
		if err != nil {
			return err
		}
		if _, err := s.Commit(ctx, git.CommitOptions{Message: c.data, Author: author, Ref: c.ref, Old: old}); err != nil {
			return err
		}
		fmt.Println(c.data)
	}
	return nil
}

// foreign writes the blob of the last commit as another program would, which flushes
// nothing to the disk.
func foreign(dir, data string) error {
	if data != commits[len(commits)-1].data {
		return nil
	}
	repo, err := gogit.PlainOpen(dir)
	if err != nil {
		return err
	}
	o := repo.Storer.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err == nil {
		_, err = w.Write([]byte(data))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		_, err = repo.Storer.SetEncodedObject(o)
	}
	return err
}

// write writes a file and makes its parent directories.
func write(ctx context.Context, d vfs.Dir, path, data string) error {
	names := strings.Split(path, "/")
	for _, name := range names[:len(names)-1] {
		_, err := d.Mkdir(ctx, name)
		if err == nil || vfs.CodeOf(err) == vfs.Exists {
			d, err = vfs.WalkDir(ctx, d, name)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Replace(ctx, names[len(names)-1], strings.NewReader(data), vfs.If{})
	return err
}

// tip returns the commit of a branch, or "" if there is no such branch.
func tip(dir, ref string) (string, error) {
	s, err := git.OpenAmbient(dir, git.Options{Revision: ref})
	switch {
	case errors.Is(err, vfs.NotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	defer s.Close()
	return s.Revision().Commit, nil
}

// TestPowerCut cuts the power at each system call. After that each branch has the last
// commit that was reported, or the one in progress, with all of its objects.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{"src/a": {Data: "1"}, "b": {Data: "b"}}))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVar+"="+f.dir)
	powercut.Run(t, f.dir, cmd).Each(t, func(dir string, said []string) error {
		before, after := branchesAfter(len(said)), branchesAfter(min(len(said)+1, len(commits)))
		for _, c := range commits {
			got, err := branch(t.Context(), dir, c.ref)
			if err != nil {
				return err
			}
			if !maps.Equal(got, before[c.ref]) && !maps.Equal(got, after[c.ref]) {
				return fmt.Errorf("%s holds %q, want %q or %q", c.ref, got, before[c.ref], after[c.ref])
			}
		}
		return nil
	})
	needGit(t)
	sound(t, f.dir)
}

// branch returns the files of a branch, or none if there is no such branch.
func branch(ctx context.Context, dir, ref string) (files, error) {
	got := files{}
	s, err := git.OpenAmbient(dir, git.Options{Revision: ref})
	if errors.Is(err, vfs.NotFound) {
		return got, nil
	}
	if err == nil {
		defer s.Close()
		walkAll(ctx, s.Root(), "", got)
	}
	return got, err
}

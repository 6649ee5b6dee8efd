package git_test

import (
	"context"
	"testing"

	"capd/backend/git"
	"capd/backend/memory"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
	"capd/worktree"
)

// work is a revision with changes that wait for a commit.
type work struct{ *worktree.Tree }

// openWork opens a repository. Changes are kept in memory.
func openWork(dir string, o git.Options) (work, error) {
	o.Writable = true
	s, err := git.OpenAmbient(dir, o)
	if err != nil {
		return work{}, err
	}
	t, err := worktree.New(context.Background(), s, memory.New(memory.Limits{Bytes: 1 << 30}).Root())
	if err != nil {
		s.Close()
	}
	return work{t}, err
}

// work opens the repository with changes, and closes it when the test ends.
func (f *fixture) work(o git.Options) work {
	f.Helper()
	w, err := openWork(f.dir, o)
	check.OK(f, err)
	f.Cleanup(func() { w.Close() })
	return w
}

func (w work) Changed(t testing.TB) bool {
	t.Helper()
	changed, err := w.Tree.Changed(t.Context())
	check.OK(t, err)
	return changed
}

// Changes returns the changes that wait for a commit.
func (w work) Changes(ctx context.Context) ([]diff.Change, error) {
	all, _, err := w.Diff(ctx)
	return all, err
}

func (w work) Discard(ctx context.Context) error { return w.Revert(ctx, nil) }

func (w work) Revision() git.Revision { return w.Repository().Revision() }

// shapes returns the paths, kinds and executable bits of changes, without versions.
func shapes(all []diff.Change) (shapes []string) {
	for _, c := range all {
		shapes = append(shapes, c.Path+": "+string(c.Kind)+" from "+c.Was.String()+" to "+c.Is.String())
	}
	return shapes
}

package git_test

import (
	"testing"

	"capd/backend/git"
	"capd/vfs/vfstest"
)

func TestPutYields(t *testing.T) {
	f := newFixture(t)
	f.commit("main", f.fill(vfstest.Tree{}))
	vfstest.Yields(t, f.work(git.Options{Revision: "main"}).Root())
}

package memory_test

import (
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
)

func newTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	s := memory.New(memory.Limits{})
	vfstest.Fill(t, s.Root(), tree,
		vfstest.Symlink(s.Root()),
		vfstest.SetExec(s.Root()))
	return s.Root()
}

func TestSuite(t *testing.T) { vfstest.Run(t, vfstest.Store{New: newTree}) }

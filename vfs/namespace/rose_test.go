package namespace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// A link that leads above its tree leads to another tree, or outside.
func TestLinkOutOfItsTree(t *testing.T) {
	project, tmp := memory.New(memory.Limits{}), memory.New(memory.Limits{})
	for name, target := range map[string]string{
		"across": "../tmp/there", "out": "../etc/passwd", "above": "../../tmp/there", "dangling": "missing", "gone": "../tmp/missing",
	} {
		require.NoError(t, project.Symlink(t.Context(), name, target))
	}
	_, err := tmp.Root().Create(t.Context(), "there")
	require.NoError(t, err)
	guarded := membrane.Guarded(check.Compose(t, map[string]vfs.Dir{"project": membrane.Guarded(project.Root(), nil), "tmp": tmp.Root()}).Root(), nil)
	for name, want := range map[string]vfs.Code{
		"across": "", "out": vfs.Outside, "above": vfs.Outside, "dangling": vfs.NotFound, "gone": vfs.NotFound,
	} {
		n, err := vfs.Walk(t.Context(), guarded, "project/"+name)
		require.Equal(t, want, vfs.CodeOf(err), name)
		if err == nil {
			require.NoError(t, n.Close())
		}
	}
	_, err = vfs.Walk(t.Context(), guarded, "etc/passwd")
	require.Equal(t, vfs.NotFound, vfs.CodeOf(err))
}

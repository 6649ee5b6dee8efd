package vfs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// What was seen of a node is recalled by the same node, with the same context, and once.
func TestRecall(t *testing.T) {
	store := memory.New(memory.Limits{}).Root()
	a, err := store.Create(t.Context(), "a")
	require.NoError(t, err)
	b, err := store.Create(t.Context(), "b")
	require.NoError(t, err)

	ctx := vfs.Recalling(t.Context())
	vfs.Remember(ctx, a, vfs.Info{Size: 7})
	_, ok := vfs.Recall(ctx, b)
	require.False(t, ok, "another node")
	_, ok = vfs.Recall(vfs.Recalling(t.Context()), a)
	require.False(t, ok, "another operation")
	below, cancel := context.WithCancel(ctx)
	info, ok := vfs.Recall(below, a)
	require.True(t, ok)
	require.EqualValues(t, 7, info.Size)
	_, ok = vfs.Recall(ctx, a)
	require.False(t, ok, "twice")
	cancel()
	require.ErrorIs(t, below.Err(), context.Canceled)

	require.True(t, vfs.IsTrying(vfs.Recalling(vfs.Trying())))
	vfs.Remember(t.Context(), a, vfs.Info{Size: 7}) // nobody's
	_, ok = vfs.Recall(t.Context(), a)
	require.False(t, ok)
}

// If a guard delays a Stat, it answers what is there after the delay.
func TestRecallBehindAGuard(t *testing.T) {
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(f, []byte("old"), 0o600))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	require.NoError(t, err)
	defer s.Close()
	root := membrane.Guarded(s.Root(), nil, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		if op.Kind == membrane.OpStat {
			require.NoError(t, os.Remove(f))
		}
		return do(ctx)
	}))
	ctx := vfs.Recalling(t.Context())
	n, err := vfs.Walk(ctx, root, "f")
	require.NoError(t, err)
	defer n.Close()
	info, err := n.Stat(ctx)
	require.Equal(t, vfs.NotFound, vfs.CodeOf(err), "%+v", info)
}

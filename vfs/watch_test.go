package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/vfs"
)

// A watch on nested membranes is told by any of them, and ends.
func TestWatchNestedMembranes(t *testing.T) {
	for _, outer := range []bool{true, false} {
		in, out := vfs.NewGate(), vfs.NewGate()
		d := vfs.Guarded(vfs.Guarded(memory.New(memory.Limits{}).Root(), in), out)
		told, stopped := 0, 0
		stop := vfs.OnRevoke(d, func(error) { stopped++ })
		defer vfs.OnRevoke(d, func(err error) {
			require.ErrorIs(t, err, vfs.Revoked)
			told++
		})()
		stop()
		stop()
		if outer {
			require.NoError(t, out.Revoke())
		} else {
			require.NoError(t, in.Revoke())
		}
		require.NoError(t, out.Revoke())
		require.NoError(t, in.Revoke())
		require.Equal(t, 1, told)
		require.Zero(t, stopped)
	}
}

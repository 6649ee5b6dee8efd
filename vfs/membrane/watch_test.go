package membrane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
)

// A watch on nested membranes is told by any of them, and ends.
func TestWatchNestedMembranes(t *testing.T) {
	for _, outer := range []bool{true, false} {
		in, out := membrane.NewGate(), membrane.NewGate()
		d := membrane.Guarded(membrane.Guarded(memory.New(memory.Limits{}).Root(), in), out)
		told, stopped := 0, 0
		stop := membrane.OnRevoke(d, func(error) { stopped++ })
		defer membrane.OnRevoke(d, func(err error) {
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

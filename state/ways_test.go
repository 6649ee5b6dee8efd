package state

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/locator"
	"capd/vfs"
)

func TestWaysAreKept(t *testing.T) {
	s := Dir(t.TempDir())
	ways, err := s.Ways()
	require.NoError(t, err)
	require.Empty(t, ways)
	want := []Way{{"example.org", 7, locator.KeyOf(nil)}, {"::1", 8, locator.KeyOf([]byte("x"))}}
	require.NoError(t, s.KeepWays(want))
	ways, err = s.Ways()
	require.NoError(t, err)
	require.Equal(t, want, ways)
	require.Equal(t, "tls:[::1]:8", ways[1].String())
	require.NoError(t, os.WriteFile(s.ways(), []byte("{"), 0o600))
	_, err = s.Ways()
	require.ErrorIs(t, err, vfs.Corrupt)
}

package vfs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/vfs"
)

// What is said of a path is never much longer than a path may be, whatever was asked for.
func TestErrorAboutALongPath(t *testing.T) {
	about := func(path string) string { return (&vfs.Error{Code: vfs.NotFound, Path: path}).Error() }
	long := strings.Repeat("a", vfs.MaxPath)
	require.True(t, about(long) == "notFound: "+long)
	require.True(t, about(long+"b") == "notFound: "+long+"…")
	require.Less(t, len(about(strings.Repeat("\x01", 7<<20))), 6*vfs.MaxPath+100)
}

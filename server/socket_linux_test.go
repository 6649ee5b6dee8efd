package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/state"
	"capd/vfs"
)

// There is no moment at which others could connect to a socket that is not for them: whoever reached the operator's
// would control the host.
func TestSocketIsNeverOpen(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	l, err := bind(path)
	require.NoError(t, err)
	defer l.Close()
	fi, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
}

// A host removes a socket that another has left, and nothing else.
func TestSocketRemovesNothing(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a file":      func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		dir := t.TempDir()
		st := state.Dir(filepath.Join(t.TempDir(), "state"))
		path := filepath.Join(dir, "guest.sock")
		require.NoError(t, make(path))
		_, err := Socket{Mode: 0o666, Dir: dir}.open(st)
		require.ErrorIs(t, err, vfs.Exists, name)
		_, err = listenUnix(path)
		require.ErrorIs(t, err, vfs.Exists, name)
		_, err = os.Lstat(path)
		require.NoError(t, err, name)
	}
	left := filepath.Join(t.TempDir(), "s")
	require.NoError(t, syscall.Mknod(left, syscall.S_IFSOCK|0o600, 0))
	l, err := listenUnix(left)
	require.NoError(t, err)
	l.Close()
}

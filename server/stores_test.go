package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// Closing one root of a store leaves its other roots open.
func TestRootsAreTheirOwn(t *testing.T) {
	s := stores{st: state.Dir(t.TempDir()), contents: contents{own: t.TempDir()}, directories: &directories{}}
	blobs, err := cas.OpenAmbient(s.contents.own, cas.Options{})
	require.NoError(t, err)
	stored, err := cas.Put(t.Context(), blobs, memory.New(memory.Limits{}).Root(), cas.PutOptions{})
	require.NoError(t, err)
	for _, text := range []string{"memory:", "physical:" + t.TempDir(), fmt.Sprintf("cas:#%x", stored.Hash)} {
		u, err := virtualfs.ParseURL(text)
		require.NoError(t, err)
		store, err := s.openers()[u.Scheme](t.Context(), u)
		require.NoError(t, err, text)
		first, second := store.Root(), store.Root()
		require.NoError(t, first.Close())
		_, err = second.Stat(t.Context())
		require.NoError(t, err, text)
		third := store.Root()
		_, err = third.Stat(t.Context())
		require.NoError(t, err, text)
		second.Close()
		third.Close()
		if store.Close != nil {
			require.NoError(t, store.Close())
			_, err = store.Root().Stat(t.Context())
			require.Equal(t, vfs.Stale, vfs.CodeOf(err), "%s, closed", text)
		}
	}
}

// A directory has one Store, however it is mounted, until its last mount is gone.
func TestOneStore(t *testing.T) {
	s := stores{st: state.Dir(t.TempDir()), directories: &directories{}}
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	var mounted []*virtualfs.Store
	open := func(text string) {
		u, err := virtualfs.ParseURL(text)
		require.NoError(t, err)
		m, err := s.physical(t.Context(), u)
		require.NoError(t, err)
		mounted = append(mounted, m)
	}
	for _, text := range []string{"physical:" + dir, "physical:" + link, "physical:" + filepath.Join(dir, "sub", "..")} {
		open(text)
		require.Len(t, s.directories.open, 1, text)
	}
	open("physical:" + dir + "?readonly")
	require.Len(t, s.directories.open, 1)
	require.Equal(t, 4, s.directories.open[0].users, "with a read-only mount, which shares it")
	open("physical:" + filepath.Join(dir, "sub"))
	require.Len(t, s.directories.open, 2)

	for _, m := range mounted[:2] {
		require.NoError(t, m.Close())
	}
	_, err := mounted[2].Root().Stat(t.Context())
	require.NoError(t, err, "the third uses it")
	require.NoError(t, mounted[2].Close())
	put := func(m *virtualfs.Store) error {
		_, err := vfs.Put(t.Context(), m.Root(), "f", strings.NewReader("x"), vfs.If{})
		return err
	}
	require.ErrorIs(t, put(mounted[3]), vfs.ReadOnly, "the read-only one is left")
	open("physical:" + dir)
	require.NoError(t, put(mounted[5]), "a store that was read-only alone is shared, too")
	require.NoError(t, mounted[5].Close())
	require.NoError(t, mounted[3].Close())
	_, err = mounted[3].Root().Stat(t.Context())
	require.ErrorIs(t, err, vfs.Stale)
	open("physical:" + dir)
	_, err = mounted[6].Root().Stat(t.Context())
	require.NoError(t, err, "it is opened anew")
	for _, m := range []*virtualfs.Store{mounted[4], mounted[6]} {
		require.NoError(t, m.Close())
	}
	require.Empty(t, s.directories.open)
}

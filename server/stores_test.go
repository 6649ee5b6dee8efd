package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// Whoever closes a root that a store gave him closes nobody else's.
func TestRootsAreTheirOwn(t *testing.T) {
	s := stores{st: state.Dir(t.TempDir()), contents: contents{own: t.TempDir()}}
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

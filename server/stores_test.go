package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

// Closing one root of a store leaves its other roots open.
func TestRootsAreTheirOwn(t *testing.T) {
	s := stores{st: state.Dir(t.TempDir()), private: func() []private { return nil }, contents: contents{own: t.TempDir()}, directories: &directories{}}
	blobs, err := cas.OpenAmbient(s.contents.own, cas.Options{})
	check.OK(t, err)
	stored, err := cas.Put(t.Context(), blobs, memory.New(memory.Limits{}).Root(), cas.PutOptions{})
	check.OK(t, err)
	for _, text := range []string{"memory:", "physical:" + t.TempDir(), fmt.Sprintf("cas:#%x", stored.Hash)} {
		u, err := virtualfs.ParseURL(text)
		check.OK(t, err)
		store, err := s.openers()[u.Scheme](t.Context(), u)
		if err != nil {
			t.Fatalf("%v: %v", text, err)
		}
		first, second := store.Root(), store.Root()
		check.OK(t, first.Close())
		_, err = second.Stat(t.Context())
		if err != nil {
			t.Fatalf("%v: %v", text, err)
		}
		third := store.Root()
		_, err = third.Stat(t.Context())
		if err != nil {
			t.Fatalf("%v: %v", text, err)
		}
		second.Close()
		third.Close()
		if store.Close != nil {
			check.OK(t, store.Close())
			_, err = store.Root().Stat(t.Context())
			if got, want := vfs.CodeOf(err), vfs.Stale; !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, closed: %v, want %v", text, got, want)
			}
		}
	}
}

// A directory has one Store, however it is mounted, until its last mount is gone.
func TestOneStore(t *testing.T) {
	s := stores{st: state.Dir(t.TempDir()), private: func() []private { return nil }, directories: &directories{}}
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	check.OK(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	var mounted []*virtualfs.Store
	open := func(text string) {
		u, err := virtualfs.ParseURL(text)
		check.OK(t, err)
		m, err := s.physical(t.Context(), u)
		check.OK(t, err)
		mounted = append(mounted, m)
	}
	for _, text := range []string{"physical:" + dir, "physical:" + link, "physical:" + filepath.Join(dir, "sub", "..")} {
		open(text)
		if got := s.directories.open; len(got) != 1 {
			t.Fatalf("%v: %v, want %d", text, got, 1)
		}
	}
	open("physical:" + dir + "?readonly")
	if got := s.directories.open; len(got) != 1 {
		t.Fatalf("%v, want %d", got, 1)
	}
	if got, want := s.directories.open[0].users, 4; !reflect.DeepEqual(got, want) {
		t.Fatalf("with a read-only mount, which shares it: %v, want %v", got, want)
	}
	open("physical:" + filepath.Join(dir, "sub"))
	if got := s.directories.open; len(got) != 2 {
		t.Fatalf("%v, want %d", got, 2)
	}

	for _, m := range mounted[:2] {
		check.OK(t, m.Close())
	}
	_, err := mounted[2].Root().Stat(t.Context())
	if err != nil {
		t.Fatalf("the third uses it: %v", err)
	}
	check.OK(t, mounted[2].Close())
	put := func(m *virtualfs.Store) error {
		_, err := vfs.Put(t.Context(), m.Root(), "f", strings.NewReader("x"), vfs.If{})
		return err
	}
	if err := put(mounted[3]); !errors.Is(err, vfs.ReadOnly) {
		t.Fatalf("the read-only one is left: %v, want %v", err, vfs.ReadOnly)
	}
	open("physical:" + dir)
	if err := put(mounted[5]); err != nil {
		t.Fatalf("a store that was read-only alone is shared, too: %v", err)
	}
	check.OK(t, mounted[5].Close())
	check.OK(t, mounted[3].Close())
	_, err = mounted[3].Root().Stat(t.Context())
	if !errors.Is(err, vfs.Stale) {
		t.Fatalf("%v, want %v", err, vfs.Stale)
	}
	open("physical:" + dir)
	_, err = mounted[6].Root().Stat(t.Context())
	if err != nil {
		t.Fatalf("it is opened again: %v", err)
	}
	for _, m := range []*virtualfs.Store{mounted[4], mounted[6]} {
		check.OK(t, m.Close())
	}
	if got := s.directories.open; len(got) != 0 {
		t.Fatalf("directories are still open: %v", got)
	}
}

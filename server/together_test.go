package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A directory, an overlay on it and a directory in it are mounted side by side. Changes by guests
// and changes that the host applies from the overlay are atomic among them: no count is lost.
func TestMountsTogether(t *testing.T) {
	const each = 80
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sub", "n"), "000000-")
	s := started(t, &server.Server{Mounts: []server.Mount{
		{Path: "project", URL: "physical:" + dir},
		{Path: "sub", URL: "physical:" + filepath.Join(dir, "sub")},
		{Path: "draft", URL: "overlay:physical:" + dir},
	}})
	d, err := s.FS().Dir(t.Context(), "")
	check.OK(t, err)
	defer d.Close()
	inPlace := func(path string, who byte) func() error {
		return func() error {
			f, n, v, err := number(t.Context(), d, path)
			if err == nil {
				defer f.Close()
				_, err = f.WriteAt(t.Context(), text(n+1, who), 0, vfs.If{Is: v})
			}
			return err
		}
	}
	applied := func() error {
		f, n, v, err := number(t.Context(), d, "draft/sub/n")
		if err == nil {
			f.Close()
			_, err = vfs.Put(t.Context(), d, "draft/sub/n", bytes.NewReader(text(n+1, 'd')), vfs.If{Is: v})
		}
		if err == nil {
			_, err = s.Apply(t.Context(), "draft", server.ApplyOptions{})
		}
		for busy := err != nil; busy; { // the file is being written all the time
			_, rerr := s.Revert(t.Context(), "draft")
			busy = errors.Is(rerr, vfs.Busy)
		}
		return err
	}
	var wg sync.WaitGroup
	for _, count := range []func() error{inPlace("project/sub/n", 'p'), inPlace("sub/n", 's'), applied} {
		wg.Go(func() {
			for range each {
				for err := count(); err != nil; err = count() {
					if !errors.Is(err, vfs.Conflict) && !errors.Is(err, vfs.Busy) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(filepath.Join(dir, "sub", "n"))
	check.OK(t, err)
	if got, want := string(got[:6]), fmt.Sprintf("%06d", 3*each); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// text returns n as written by one of the three writers. Two that write the same do not conflict
// for an overlay.
func text(n int, who byte) []byte { return fmt.Appendf(nil, "%06d%c", n, who) }

// number opens the file at path, and reads the number in it and that content's version.
func number(ctx context.Context, d vfs.Dir, path string) (f vfs.File, n int, v vfs.Version, err error) {
	if f, err = vfs.WalkFile(ctx, d, path); err != nil {
		return nil, 0, v, err
	}
	v, err = vfs.VersionOf(ctx, f)
	var b [7]byte
	if err == nil {
		_, err = f.ReadAt(ctx, b[:], 0)
	}
	if err == nil {
		n, err = strconv.Atoi(string(b[:6]))
	}
	if err != nil {
		f.Close()
	}
	return f, n, v, err
}

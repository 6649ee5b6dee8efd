package virtualfs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"capd/backend/memory"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

// A store that does not close keeps neither an unmount nor the end of the host. The log names its mount.
func TestStoreThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closes := make(chan struct{})
		var mu sync.Mutex
		var logged string
		fs := virtualfs.New(virtualfs.Options{
			Open: map[string]virtualfs.Opener{"stuck": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
				return &virtualfs.Store{Root: memory.New(memory.Limits{}).Root, Close: func() error { <-closes; return nil }}, nil
			}},
			Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
				return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root()}, nil
			},
			Logf: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				logged += fmt.Sprintf(format, args...) + "\n"
			},
		})
		for path, url := range map[string]string{"one": "stuck:", "two": "stuck:", "over": "overlay:stuck:"} {
			check.OK(t, fs.Mount(t.Context(), path, url, operator.Attenuation{}))
		}
		err := fs.Mount(t.Context(), "bad", "stuck:", operator.Attenuation{Deny: []string{"["}})
		check.Is(t, "a mount that fails", err, vfs.Invalid)
		check.OK(t, fs.Unmount(t.Context(), "one"))
		check.OK(t, fs.Close())
		mu.Lock()
		defer mu.Unlock()
		for _, path := range []string{"one", "two", "over"} {
			if !strings.Contains(logged, "capd: "+path+"/: closing its store: busy") {
				t.Errorf("no word of %s in %q", path, logged)
			}
		}
		close(closes)
	})
}

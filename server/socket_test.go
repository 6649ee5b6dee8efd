package server_test

import (
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// Several hosts start at once with the same directory for the guests' socket. One of them starts, and guests reach it.
// The errors of the others say what to do.
func TestOneSocketDirAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no other users to let in")
	}
	dir := filepath.Join(t.TempDir(), "sockets")
	for range 4 * rounds() {
		var hosts []*server.Server
		var all sync.WaitGroup
		errs := make([]error, 4)
		for range errs {
			hosts = append(hosts, &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Socket: server.Socket{Mode: 0o666, Dir: dir}})
		}
		for i, s := range hosts {
			all.Go(func() { errs[i] = s.Start(t.Context()) })
		}
		all.Wait()
		begun := 0
		for i, s := range hosts {
			if errs[i] != nil {
				check.Is(t, "another host", errs[i], vfs.Busy)
				continue
			}
			begun++
			g, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
			check.OK(t, err)
			if err := stat(t.Context(), g.Locator); err != nil {
				t.Errorf("a guest of the host that began: %v", err)
			}
			check.OK(t, s.Close())
		}
		if begun != 1 {
			t.Fatalf("%d hosts began, want 1", begun)
		}
	}
}

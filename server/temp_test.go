package server_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs/vfstest/check"
)

// A directory for temporary files is there while anybody has a grant on it, however grants of one guest are made and
// revoked at the same time.
func TestTempStaysWhileHeld(t *testing.T) {
	st := t.TempDir()
	s := &server.Server{State: st, Mounts: []server.Mount{{Path: "a", URL: "memory:"}}, Roots: []server.Root{{ID: "tmp", Kind: operator.Temp}}, Logf: t.Logf}
	check.OK(t, s.Start(t.Context()))
	dir := filepath.Join(st, "roots", "tmp", "agent")
	rounds := 30
	if os.Getenv("CAPD_CI") != "" {
		rounds = 500
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range rounds {
				g, err := s.Grant(t.Context(), server.Guest{Name: "agent", Root: "tmp"})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = os.Stat(dir)
				if _, revoked := s.Revoke(g.ID); err != nil || revoked != nil {
					t.Errorf("%v, %v", err, revoked)
				}
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("nobody holds it any more: %v", err)
	}
	check.OK(t, s.Close())
	if left, err := os.ReadDir(filepath.Join(st, "roots", "+gone")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

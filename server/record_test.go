package server_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"capd/database"
	"capd/record"
	"capd/server"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// TestRetention: a host removes old entries as it is told, and what is left can be verified.
func TestRetention(t *testing.T) {
	s := &server.Server{State: t.TempDir(), Mounts: []server.Mount{{Path: "tmp", URL: "memory:"}}, Logf: t.Logf,
		Retention: server.Retention{Size: 1}}
	check.OK(t, s.Start(t.Context()))
	for range 3 * 256 / 2 {
		g, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
		check.OK(t, err)
		_, err = s.Revoke(g.ID)
		check.OK(t, err)
	}
	check.OK(t, s.Close())
	view, err := database.OpenView(t.Context(), state.Dir(s.State))
	check.OK(t, err)
	defer view.Close()
	key, err := state.Dir(s.State).ReadRecordKey()
	check.OK(t, err)
	line, err := record.Verifier(key.Public().(ed25519.PublicKey))
	check.OK(t, err)
	r, err := record.Verify(t.Context(), view, record.VerifyOptions{Key: line})
	if check.OK(t, err); r.First < 256 || len(r.Problems) > 0 {
		t.Errorf("%d entries from number %d on: %s", r.Entries, r.First, strings.Join(r.Problems, "; "))
	}
}

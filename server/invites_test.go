package server_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// petitioner connects by the locator of an invitation.
func petitioner(t *testing.T, i *server.Invited) *client.Petitioner {
	t.Helper()
	conn, err := client.Dial(t.Context(), i.Locator)
	check.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.Petitioner(t.Context())
}

// TestRequests: over a socket, what waits for a decision and what was decided outlive the host, and each subject gets what is its
// own.
func TestRequests(t *testing.T) {
	served, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	write(t, filepath.Join(served, "docs", "a"), "text")
	start := func() *server.Server {
		s := &server.Server{State: state, Logf: t.Logf, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}, Roots: []server.Root{
			{ID: "project", Kind: operator.Workspace, Path: "p"}, {ID: "own", Kind: operator.ExtensionStorage},
		}}
		check.OK(t, s.Start(t.Context()))
		return s
	}
	s := start()
	invited, err := s.Invite(t.Context(), "extension:lint", server.InviteTerms{Permissions: []server.Permission{{Kind: operator.ExtensionStorage, Rights: membrane.AllRights}}})
	check.OK(t, err)
	p := petitioner(t, invited)
	_, err = p.RequestDir(t.Context(), "own", client.AllRights, "").Put(t.Context(), "f", strings.NewReader("mine"), vfs.If{}) // nobody is asked
	check.OK(t, err)
	text, _, err := p.RequestFile(t.Context(), "own/f", client.Read, "").ReadText(t.Context())
	if check.OK(t, err); text != "mine" {
		t.Errorf("its own file reads %q", text)
	}
	read := func(p *client.Petitioner) error {
		text, _, err := p.RequestDir(t.Context(), "project/docs", client.Read, "to read").OpenFile("a").ReadText(t.Context())
		if err == nil && text != "text" {
			t.Errorf("it reads %q", text)
		}
		return err
	}
	check.Is(t, "a request that nobody would see", read(p), vfs.AskDenied)

	stop := s.Approvals().Listen()
	ended := make(chan error, 1)
	go func() { ended <- read(p) }()
	var waiting []operator.Ask
	check.Eventually(t, "it waits", func() bool {
		waiting, err = s.Approvals().List(t.Context(), false, operator.Ask{})
		return err == nil && len(waiting) == 1
	})
	stop()
	check.OK(t, s.Close())
	if <-ended == nil {
		t.Error("it was given by a host that has ended")
	}

	s = start()
	_, err = s.Approvals().Decide(waiting[0].ID, operator.Verdict{Answer: operator.Always, For: time.Hour}, "the test")
	check.OK(t, err)
	check.OK(t, s.Close())
	s = start()
	check.OK(t, read(petitioner(t, invited)))
	check.OK(t, read(petitioner(t, invited)))
	var all []string
	for _, g := range s.Grants() {
		all = append(all, g.Guest+" "+g.Path+" "+g.Root+" "+g.Source)
	}
	want := "extension:lint own/extension+lint own manifest, extension:lint own/extension+lint/f own manifest, extension:lint p/docs project approval"
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("the grants are\n%s, want\n%s", got, want)
	}
	n, err := s.Revoke("extension:lint")
	if check.OK(t, err); n != 4 {
		t.Errorf("%d grants and invitations were revoked", n)
	}
	check.Is(t, "asking after that", read(petitioner(t, invited)), vfs.Revoked)
	check.OK(t, s.Close())
	s = start()
	check.Is(t, "asking after a restart", read(petitioner(t, invited)), vfs.Revoked)
	list, err := s.Invites(t.Context())
	if check.OK(t, err); len(list) != 1 || list[0].State != operator.Revoked {
		t.Errorf("the invitations are %+v", list)
	}
	check.Is(t, "ending what is none", s.RevokeInvite("i7"), vfs.NotFound)
	check.OK(t, s.Close())
}

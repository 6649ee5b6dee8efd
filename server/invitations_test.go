package server_test

import (
	"os"
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

// TestInvitations: what a configuration says of an invitation holds at once for a connection that asks with it.
func TestInvitations(t *testing.T) {
	served, file := t.TempDir(), filepath.Join(t.TempDir(), "lint.locator")
	write(t, filepath.Join(served, "f"), "text")
	state := filepath.Join(t.TempDir(), "state")
	with := func(all ...server.Invitation) *server.Server {
		return &server.Server{State: state, Logf: t.Logf, Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}}, Invitations: all,
			Roots: []server.Root{{ID: "project", Kind: operator.Workspace, Path: "p"}}}
	}
	may := func(r membrane.Rights) server.Invitation {
		return server.Invitation{Subject: "extension:lint", LocatorFile: file, Permissions: []server.Permission{{Kind: operator.Workspace, Rights: r}}}
	}
	s := with(may(membrane.Read))
	check.OK(t, s.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, s.Close()) })
	_, err := s.Reconcile(t.Context(), nil)
	check.OK(t, err)
	text, err := os.ReadFile(file)
	check.OK(t, err)
	p := petitioner(t, &server.Invited{Locator: strings.TrimSpace(string(text))})
	asks := func(at string, r client.Rights) error {
		_, _, err := p.RequestDir(t.Context(), at, r, "").OpenFile("f").ReadText(t.Context())
		return err
	}
	check.OK(t, asks("project", client.Read))
	reload := func(all ...server.Invitation) {
		t.Helper()
		_, err := s.Reload(t.Context(), with(all...), nil)
		check.OK(t, err)
	}
	reload(may(membrane.List))
	check.Is(t, "what is not given any more", asks("project", client.Read|client.Metadata), vfs.AskDenied)
	offers, err := p.Roots(t.Context())
	if check.OK(t, err); len(offers) != 1 || offers[0].Granted != membrane.List {
		t.Errorf("it may ask for %+v", offers)
	}
	short := may(membrane.List)
	short.Expires = time.Millisecond
	reload(short)
	check.Is(t, "after its time", asks("project", client.List), vfs.Expired)
	reload(may(membrane.List))
	reload()
	check.Is(t, "after its end", asks("project", client.List), vfs.Expired)
	all, err := s.Invites(t.Context())
	if check.OK(t, err); len(all) != 2 || all[1].State != operator.Revoked {
		t.Errorf("the invitations are %+v", all)
	}
}

// TestInvitationsCheck: what cannot be made is refused before the start.
func TestInvitationsCheck(t *testing.T) {
	good := server.Invitation{Subject: "lint", LocatorFile: "/x"}
	for says, all := range map[string][]server.Invitation{
		"LocatorFile is empty":        {{Subject: "lint"}},
		"the invitation of \"a b\"":   {{Subject: "a b", LocatorFile: "/x"}},
		"another for the same":        {good, {Subject: "agent-run:lint", LocatorFile: "/y"}},
		"the source is manifest":      {{Subject: "lint", Source: "operator", LocatorFile: "/x"}},
		"at most 64":                  {{Subject: "lint", LocatorFile: "/x", Permissions: make([]server.Permission, 65)}},
		"f:1:2: the invitation of \"": {{Subject: "", LocatorFile: "/x", Where: "f:1:2"}},
	} {
		s := &server.Server{State: t.TempDir(), Invitations: all}
		err := s.Check()
		if check.Is(t, says, err, vfs.Invalid); err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
}

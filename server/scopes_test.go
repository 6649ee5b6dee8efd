package server_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// inScopes are hosts with one workspace each, in every way that a workspace has drafts.
func inScopes(t *testing.T, f func(t *testing.T, s *server.Server, root server.Root, src string)) {
	for _, access := range []string{operator.AccessRO, operator.AccessNone} {
		for _, scope := range operator.DraftScopes() {
			t.Run(access+" "+scope, func(t *testing.T) {
				src := t.TempDir()
				check.OK(t, os.WriteFile(filepath.Join(src, "f"), []byte("seed"), 0o600))
				r := server.Root{ID: "w", Kind: operator.Workspace, Path: "a/w", Access: access, Scope: scope}
				s := &server.Server{
					State: t.TempDir(), Mounts: []server.Mount{{Path: "a/w", URL: server.PhysicalURL(src)}},
					Roots: []server.Root{r}, Logf: t.Logf,
				}
				check.OK(t, s.Start(t.Context()))
				defer s.Close()
				f(t, s, r, src)
			})
		}
	}
}

// held is what a guest has, over the wire.
func held(t *testing.T, s *server.Server, g server.Guest) (*server.Granted, vfs.Dir) {
	t.Helper()
	given, err := s.Grant(t.Context(), g)
	check.OK(t, err)
	c, err := client.Dial(t.Context(), given.Locator)
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return given, c.Dir(t.Context())
}

// What one guest writes in its draft no other guest finds, by whatever name or listing, unless they share the draft. The
// workspace stays as it is.
func TestScopesAreApart(t *testing.T) {
	inScopes(t, func(t *testing.T, s *server.Server, r server.Root, src string) {
		agents := []string{"one", "One", "agent-run:one:two"}
		dirs := map[string]vfs.Dir{}
		for _, name := range agents {
			given, d := held(t, s, server.Guest{Name: name, Root: "w"})
			dirs[name] = d
			if given.Root != "w" || !operator.InScopes(given.Path) {
				t.Errorf("%s has %+v", name, given.Grant)
			}
			check.OK(t, fill(t.Context(), d, r.Draft()+"/of-"+strings.ReplaceAll(name, ":", "+")))
		}
		for _, name := range agents {
			own := "of-" + strings.ReplaceAll(name, ":", "+")
			for other, d := range dirs {
				_, err := vfs.Walk(t.Context(), d, r.Draft()+"/"+own)
				if shared := other == name || r.Scope == operator.SharedScope; shared != (err == nil) {
					t.Errorf("%s looks for what %s wrote: %v", other, name, err)
				}
			}
			for other := range agents {
				_, err := s.Grant(t.Context(), server.Guest{Name: name, Path: r.ScopeOf(subject(t, agents[other]))})
				if own := agents[other] == name || r.Scope == operator.SharedScope; own != (err == nil) {
					t.Errorf("%s is granted the scope of %s by its path: %v", name, agents[other], err)
				}
			}
		}
		for _, name := range []string{"person:ada", "core:index"} {
			_, d := held(t, s, server.Guest{Name: name})
			for e, err := range vfs.ListFrom(t.Context(), d, "") {
				if check.OK(t, err); e.Name != "a" {
					t.Errorf("%s sees %s", name, e.Name)
				}
			}
			for _, path := range []string{"scopes", "scopes/w", r.ScopeOf("agent-run:one") + "/" + r.Draft() + "/of-one"} {
				_, err := vfs.Walk(t.Context(), d, path)
				check.Is(t, name+" opens "+path, err, vfs.Denied)
			}
			_, err := d.Mkdir(t.Context(), "scopes")
			check.Is(t, name+" makes scopes", err, vfs.Denied)
		}
		left, err := os.ReadDir(src)
		if err != nil || len(left) != 1 {
			t.Errorf("in the workspace are %v, %v", left, err)
		}
	})
}

// Who gets no right to write in a workspace gets none in a draft of it.
func TestDraftGivesNoRights(t *testing.T) {
	inScopes(t, func(t *testing.T, s *server.Server, r server.Root, _ string) {
		_, d := held(t, s, server.Guest{Name: "extension:lint", Root: "w"})
		_, err := vfs.Walk(t.Context(), d, r.Draft()+"/f")
		check.OK(t, err)
		check.Is(t, "a write", fill(t.Context(), d, r.Draft()+"/new"), vfs.ReadOnly)
		if r.Access == operator.AccessRO {
			_, one := held(t, s, server.Guest{Name: "one", Root: "w"})
			check.Is(t, "a write", fill(t.Context(), one, "w/new"), vfs.ReadOnly)
		}
	})
}

// However grants of one guest are made and revoked at the same time, who is granted a draft finds it.
func TestScopeStaysWhileHeld(t *testing.T) {
	rounds := 2
	if os.Getenv("CAPD_CI") != "" {
		rounds = 200
	}
	inScopes(t, func(t *testing.T, s *server.Server, r server.Root, _ string) {
		done := make(chan error, 3)
		for range cap(done) {
			go func() {
				for range rounds {
					if err := grantAndLook(t.Context(), s, r); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range cap(done) {
			check.OK(t, <-done)
		}
		if at := slices.IndexFunc(s.Mounted(), func(m server.Mounted) bool { return operator.InScopes(m.Path) }); at >= 0 {
			t.Errorf("%s is still mounted", s.Mounted()[at].Path)
		}
	})
}

func grantAndLook(ctx context.Context, s *server.Server, r server.Root) error {
	g, err := s.Grant(ctx, server.Guest{Name: "agent", Root: "w"})
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, g.Locator)
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := vfs.Walk(ctx, c.Dir(ctx), r.Draft()+"/f")
	if err != nil {
		return err
	}
	n.Close()
	_, err = s.Revoke(g.ID)
	return err
}

// What cannot be opened a second time has no drafts.
func TestNoDraftOfWhatIsElsewhere(t *testing.T) {
	for what, url := range map[string]string{"memory": "memory:", "an overlay": "overlay:memory:"} {
		s := &server.Server{
			State: t.TempDir(), Mounts: []server.Mount{{Path: "w", URL: url}}, Logf: t.Logf,
			Roots: []server.Root{{ID: "w", Kind: operator.Workspace, Path: "w", Access: operator.AccessNone}},
		}
		check.Is(t, what, s.Start(t.Context()), vfs.Invalid)
	}
}

func subject(t *testing.T, name string) operator.Subject {
	s, err := operator.ParseSubject(name)
	check.OK(t, err)
	return s
}

// fill writes a new file.
func fill(ctx context.Context, d vfs.Dir, path string) error {
	_, err := vfs.Put(ctx, d, path, strings.NewReader("text"), vfs.If{Absent: true})
	return err
}

// TestScopesOfAReload: who held the whole tree before a configuration declared drafts and directories for each guest does not see
// those of others afterwards.
func TestScopesOfAReload(t *testing.T) {
	src := t.TempDir()
	mounts := []server.Mount{{Path: "w", URL: server.PhysicalURL(src)}}
	s := &server.Server{State: t.TempDir(), Mounts: mounts, Logf: t.Logf}
	check.OK(t, s.Start(t.Context()))
	defer s.Close()
	before, _ := held(t, s, server.Guest{Name: "index", BeyondDefault: true})
	_, still := held(t, s, server.Guest{Name: "index", Path: "w"})
	next := &server.Server{State: s.State, Mounts: mounts, Roots: []server.Root{
		{ID: "w", Kind: operator.Workspace, Path: "w", Access: operator.AccessNone}, {ID: "ext", Kind: operator.ExtensionStorage},
	}}
	_, err := s.Reload(t.Context(), next, nil)
	check.OK(t, err)
	_, d := held(t, s, server.Guest{Name: "one", Root: "w"})
	check.OK(t, fill(t.Context(), d, "w/of-one"))
	held(t, s, server.Guest{Name: "extension:lint", Root: "ext"})
	c, err := client.Dial(t.Context(), before.Locator)
	check.OK(t, err)
	defer c.Close()
	for _, path := range []string{"scopes", "scopes/w/one/w/of-one", "ext/extension+lint"} {
		_, err := vfs.Walk(t.Context(), c.Dir(t.Context()), path)
		check.Is(t, "looking for "+path, err, vfs.Denied)
	}
	check.OK(t, fill(t.Context(), still, "goes-on"))
}

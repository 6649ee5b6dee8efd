package server

import (
	"context"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/client"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// TestReloadTakesFirst: while a reload mounts something new, no guest can use it that the new configuration takes away or gives fewer
// rights. A guest whose rights stay goes on. If the reload fails, all is as it was.
func TestReloadTakesFirst(t *testing.T) {
	connect := func(g *Granted) *client.Dir {
		c, err := client.Dial(t.Context(), g.Locator)
		check.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c.Dir(t.Context())
	}
	put := func(d *client.Dir, path string) error {
		_, err := d.Put(t.Context(), path, strings.NewReader("x"), vfs.If{})
		return err
	}
	meanwhile := func() error { return nil }
	stores := map[string]Opener{"last": func(context.Context, *URL) (*Store, error) {
		return &Store{Root: memory.New(memory.Limits{}).Root}, meanwhile()
	}}
	s := &Server{State: t.TempDir(), Stores: stores, Logf: t.Logf, Mounts: []Mount{{Path: "old", URL: "memory:"}}}
	check.OK(t, s.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, s.Close()) })
	all, err := s.Reconcile(t.Context(), []Guest{{Name: "less"}, {Name: "gone"}, {Name: "same"}})
	check.OK(t, err)
	var open []*client.Dir
	opens := func() {
		open = nil
		for _, g := range all {
			open = append(open, connect(g))
			check.OK(t, put(open[len(open)-1], "old/"+g.Guest)) // so that the host has answered it
		}
	}
	opens()

	next := func() *Server {
		return &Server{State: s.State, Mounts: []Mount{{Path: "old", URL: "memory:"}, {Path: "new", URL: "memory:"}, {Path: "late", URL: "last:x"}}}
	}
	guests := []Guest{{Name: "less", Rights: membrane.Read | membrane.List}, {Name: "same"}}
	tried := false
	meanwhile = func() error {
		if tried = len(s.Mounted()) > 1; !tried { // it is only checked
			return nil
		}
		for i, want := range map[int][2]vfs.Code{0: {vfs.Stale, vfs.Busy}, 1: {vfs.Stale, vfs.Busy}, 2: {"", ""}} {
			check.Is(t, all[i].Guest+" with what it has open", put(open[i], "new/"+all[i].Guest), want[0])
			check.Is(t, all[i].Guest+" with its locator", put(connect(all[i]), "new/"+all[i].Guest), want[1])
		}
		return vfs.Errorf(vfs.Busy, "it fails")
	}
	_, err = s.Reload(t.Context(), next(), guests)
	check.Is(t, "a reload that fails", err, vfs.Busy)
	for _, g := range all {
		check.OK(t, put(connect(g), "old/after-"+g.Guest))
	}

	fails := meanwhile
	meanwhile = func() error { _ = fails(); return nil }
	opens()
	_, err = s.Reload(t.Context(), next(), guests)
	check.OK(t, err)
	if !tried {
		t.Error("nothing was tried during the reload")
	}
	check.Is(t, "with fewer rights", put(connect(all[0]), "new/less"), vfs.ReadOnly)
	check.Is(t, "without a grant", put(connect(all[1]), "new/gone"), vfs.Revoked)
	check.OK(t, put(open[2], "new/more"))
}

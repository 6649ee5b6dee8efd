package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/client"
	"capd/server"
	"capd/vfs"
)

// rounds is how often a race is run.
func rounds() int {
	if os.Getenv("CAPD_CI") != "" {
		return 50
	}
	return 5
}

// over reports whether err says that the Server has ended.
func over(err error) bool { return errors.Is(err, vfs.Stale) || errors.Is(err, vfs.Revoked) }

// users use s in every way until it is closed, each in a goroutine of its own. ready is closed once all have begun.
func users(t *testing.T, s *server.Server, d *client.Dir) (work *sync.WaitGroup, ready chan struct{}) {
	ctx := context.Background()
	work, ready = &sync.WaitGroup{}, make(chan struct{})
	var began sync.WaitGroup
	use := func(name string, expected []vfs.Code, do func(i int) error) {
		began.Add(1)
		work.Go(func() {
			for i := 0; ; i++ {
				err := do(i)
				if i == 2 {
					began.Done()
				}
				if i >= 2 && over(s.Unmount(ctx, "no mount")) {
					return
				}
				if err != nil && !over(err) {
					require.Contains(t, expected, vfs.CodeOf(err), "%s: %v", name, err)
				}
			}
		})
	}
	name := func(i int) string { return fmt.Sprintf("guest-%d", i%7) }
	use("Grant", nil, func(i int) error {
		g, err := s.Grant(ctx, server.Guest{Name: name(i), Path: "p"})
		if err == nil {
			err = stat(ctx, g.Locator)
		}
		return err
	})
	use("Revoke", []vfs.Code{vfs.NotFound}, func(i int) error { _, err := s.Revoke(name(i)); return err })
	use("SetWritable", []vfs.Code{vfs.NotFound}, func(i int) error { _, err := s.SetWritable(name(i), i%2 == 0); return err })
	use("Mount", []vfs.Code{vfs.Exists, vfs.Busy}, func(i int) error {
		return s.Mount(ctx, server.Mount{Path: fmt.Sprintf("late-%d", i%3), URL: s.Mounts[1].URL})
	})
	use("Unmount", []vfs.Code{vfs.NotFound, vfs.Busy}, func(i int) error { return s.Unmount(ctx, fmt.Sprintf("late-%d", i%3)) })
	use("Mounted", nil, func(int) error { s.Mounted(); s.Grants(); s.Notes(); return nil })
	use("put", []vfs.Code{vfs.NotFound}, func(i int) error {
		_, err := d.Put(ctx, fmt.Sprintf("late-%d/f%d", i%3, i%5), strings.NewReader("text"), vfs.If{})
		return err
	})
	use("Diff", []vfs.Code{vfs.NotFound}, func(i int) error {
		_, _, err := s.Diff(ctx, fmt.Sprintf("late-%d", i%3), server.DiffOptions{})
		return err
	})
	use("Apply", []vfs.Code{vfs.NotFound, vfs.Conflict, vfs.Busy, vfs.Invalid}, func(i int) error {
		_, err := s.Apply(ctx, fmt.Sprintf("late-%d", i%3), server.ApplyOptions{})
		return err
	})
	use("Revert", []vfs.Code{vfs.NotFound, vfs.Busy}, func(i int) error { _, err := s.Revert(ctx, fmt.Sprintf("late-%d", i%3)); return err })
	go func() { began.Wait(); close(ready) }()
	return work, ready
}

// stat connects as a guest, and looks once.
func stat(ctx context.Context, locator string) error {
	conn, err := client.Dial(ctx, locator)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Dir(ctx).Stat(ctx)
	return err
}

// A Server may be closed while it is used in every way. Afterwards no grant is left, and the next host can begin.
func TestCloseWhileUsed(t *testing.T) {
	served, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	for range rounds() {
		s := &server.Server{State: state, Logf: func(string, ...any) {},
			Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "d", URL: "overlay:physical:" + served}}}
		require.NoError(t, s.Start(t.Context()))
		g, err := s.Grant(t.Context(), server.Guest{Name: "all"})
		require.NoError(t, err)
		conn, err := client.Dial(t.Context(), g.Locator)
		require.NoError(t, err)
		work, ready := users(t, s, conn.Dir(t.Context()))
		<-ready
		require.NoError(t, s.Close())
		for _, g := range s.Grants() {
			require.Equal(t, "revoked", string(g.State), "%+v", g)
		}
		work.Wait()
		for _, g := range s.Grants() {
			require.Equal(t, "revoked", string(g.State), "%+v", g)
		}
		conn.Close()
	}
}

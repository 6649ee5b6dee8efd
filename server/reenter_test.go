package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// A guard may use the Server that calls it. If that takes something from the guest whose call it is, the call changes
// nothing any more.
func TestGuardUsesItsServer(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(ctx context.Context, s *server.Server) error
		code []vfs.Code // of the guest's put
	}{
		"Grant": {func(ctx context.Context, s *server.Server) error {
			_, err := s.Grant(ctx, server.Guest{Name: "other"})
			return err
		}, nil},
		"Mount": {func(ctx context.Context, s *server.Server) error {
			return s.Mount(ctx, server.Mount{Path: "n", URL: "memory:"})
		}, nil},
		"listings": {func(_ context.Context, s *server.Server) error { s.Mounted(); s.Grants(); s.Notes(); return nil }, nil},
		"Diff": {func(ctx context.Context, s *server.Server) error {
			_, _, err := s.Diff(ctx, "m", server.DiffOptions{})
			return err
		}, nil},
		"Revert":  {func(ctx context.Context, s *server.Server) error { _, err := s.Revert(ctx, "m"); return err }, nil},
		"locking": {func(_ context.Context, s *server.Server) error { _, err := s.SetWritable("guest", false); return err }, []vfs.Code{vfs.ReadOnly}},
		"Revoke":  {func(_ context.Context, s *server.Server) error { _, err := s.Revoke("guest"); return err }, []vfs.Code{vfs.Revoked}},
		"Unmount": {func(ctx context.Context, s *server.Server) error { return s.Unmount(ctx, "m") }, []vfs.Code{vfs.Stale}},
		"Close":   {func(_ context.Context, s *server.Server) error { return s.Close() }, []vfs.Code{vfs.Stale, vfs.Revoked}},
	} {
		t.Run(name, func(t *testing.T) {
			var s *server.Server
			used := make(chan error, 1)
			guard := membrane.Guard{Changes: true, Around: func(ctx context.Context, _ membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
				used <- c.use(ctx, s)
				return do(ctx)
			}}
			s = started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "overlay:memory:", Attenuation: server.Attenuation{Guards: []membrane.Guard{guard}}}}})
			d := named(t, s, server.Guest{Name: "guest"})
			_, err := d.Put(t.Context(), "m/f", strings.NewReader("text"), vfs.If{})
			check.OK(t, <-used)
			if c.code == nil {
				check.OK(t, err)
				return
			}
			if got, part := c.code, vfs.CodeOf(err); !slices.Contains(got, part) {
				t.Fatalf("%v: the code is %q, want one of %q", err, part, got)
			}
			if changes, _, err := s.Diff(t.Context(), "m", server.DiffOptions{}); err == nil {
				if got := changes; len(got) != 0 {
					t.Fatalf("changes are left: %v", got)
				}
			}
		})
	}
}

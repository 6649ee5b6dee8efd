package server_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/backend/memory"
	"capd/server"
	"capd/vfs"
)

// A store of the host's own that is faulty costs its mount, and nothing else.
func TestFaultyStores(t *testing.T) {
	root := func() vfs.Dir { return memory.New(memory.Limits{}).Root() }
	mistake := errors.New("a mistake of its own")
	answer := func(s *server.Store, err error) server.Opener {
		return func(context.Context, *server.URL) (*server.Store, error) { return s, err }
	}
	for name, c := range map[string]struct {
		open    server.Opener
		code    vfs.Code // "": it mounts
		says    string
		closing string // what closing it says
	}{
		"it panics":        {func(context.Context, *server.URL) (*server.Store, error) { panic("boom") }, vfs.Internal, "own: panicked: boom", ""},
		"nothing":          {answer(nil, nil), vfs.Internal, "own: returned neither a store nor an error", ""},
		"no root":          {answer(&server.Store{}, nil), vfs.Internal, "own: returned a store without a Root", ""},
		"a root of nil":    {answer(&server.Store{Root: func() vfs.Dir { return nil }}, nil), vfs.Internal, "own: returned a store without a Root", ""},
		"a root panics":    {answer(&server.Store{Root: func() vfs.Dir { panic("boom") }}, nil), vfs.Internal, "own: panicked: boom", ""},
		"an error":         {answer(nil, mistake), vfs.Internal, mistake.Error(), ""},
		"closing panics":   {answer(&server.Store{Root: root, Close: func() error { panic("boom") }}, nil), "", "", "own: panicked: boom"},
		"detail panics":    {answer(&server.Store{Root: root, Detail: func() string { panic("boom") }}, nil), "", "", ""},
		"what it is works": {answer(&server.Store{Root: root}, nil), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Stores: map[string]server.Opener{"own": c.open},
				Logf: func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }}
			mounts := []server.Mount{{Path: "p", URL: "own:"}, {Path: "o", URL: "overlay:own:"}}
			for _, m := range mounts {
				s.Mounts = []server.Mount{m}
				err := s.Start(t.Context())
				if c.code == "" {
					require.NoError(t, err)
					break
				}
				require.Equal(t, c.code, vfs.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, c.says)
				if c.says == mistake.Error() {
					require.ErrorIs(t, err, mistake)
				}
			}
			if c.code != "" {
				s.Mounts = nil
				require.NoError(t, s.Start(t.Context()), "the state directory is free")
				for _, m := range append(mounts, mounts...) {
					require.Equal(t, c.code, vfs.CodeOf(s.Mount(t.Context(), m)))
				}
			}
			s.Mounted()
			require.NoError(t, s.Close())
			if c.closing != "" {
				require.Contains(t, strings.Join(logged, "\n"), c.closing)
			}
		})
	}
}

package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"capd/backend/memory"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A context that ends before or during the start ends the start. For Serve that is the end it waits for. Nothing is left, and the
// Server can be started again.
func TestContextEndsDuringStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	closed, opened := 0, 0
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: t.Logf, Mounts: []server.Mount{{Path: "p", URL: "own:"}, {Path: "q", URL: "own:"}}}
	s.Stores = map[string]server.Opener{"own": func(context.Context, *server.URL) (*server.Store, error) {
		cancel()
		opened++
		return &server.Store{Root: memory.New(memory.Limits{}).Root, Close: func() error { closed++; return nil }}, nil
	}}
	begin := func(start func(context.Context) error) func() error {
		return func() error {
			ctx, cancel = context.WithCancel(t.Context())
			return start(ctx)
		}
	}
	for what, c := range map[string]struct {
		start func() error
		err   error
	}{
		"Start":        {begin(s.Start), context.Canceled},
		"Serve":        {begin(s.Serve), nil},
		"Start, ended": {func() error { return s.Start(ctx) }, context.Canceled},
		"Serve, ended": {func() error { return s.Serve(ctx) }, nil},
	} {
		cancel()
		if err := c.start(); !errors.Is(err, c.err) {
			check.OK(t, s.Close())
			t.Fatalf("%s: %v, want %v", what, err, c.err)
		}
		if closed != opened {
			t.Errorf("%s: %d stores were closed, %d opened", what, closed, opened)
		}
		if _, err := s.Grant(t.Context(), server.Guest{Name: "guest"}); !errors.Is(err, vfs.Invalid) {
			t.Errorf("%s: Grant: %v", what, err)
		}
		for _, name := range []string{"control.sock", "guest.sock"} {
			if _, err := os.Stat(filepath.Join(s.State, name)); err == nil {
				t.Errorf("%s: %s is there", what, name)
			}
		}
	}
	cancel = func() {}
	check.OK(t, s.Start(t.Context()))
	check.OK(t, s.Close())
	mistake := errors.New("a mistake")
	s = &server.Server{State: s.State, Mounts: s.Mounts[:1], Stores: map[string]server.Opener{"own": func(context.Context, *server.URL) (*server.Store, error) {
		return nil, mistake
	}}}
	if err := s.Serve(t.Context()); !errors.Is(err, mistake) {
		t.Errorf("a mistake: %v", err)
	}
}

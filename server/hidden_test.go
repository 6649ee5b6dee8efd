package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"testing"

	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// broken is a directory whose methods answer err, except Stat of the root.
type broken struct{ err error }

func (b broken) Lookup(context.Context, string) (vfs.Node, error) { return nil, b.err }
func (b broken) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) { yield(vfs.Entry{}, b.err) }
}

// What a store's own error says reaches the host's log, and no guest.
func TestOwnErrorsAreHidden(t *testing.T) {
	const secret = "/home/somebody/secret"
	var mu sync.Mutex
	var logged []string
	take := func() string {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(logged, "\n")
		logged = nil
		return all
	}
	for _, cause := range []error{
		errors.New("it failed at " + secret), &fs.PathError{Op: "open", Path: secret, Err: fs.ErrPermission}, fmt.Errorf("%w: %s", fs.ErrNotExist, secret), context.DeadlineExceeded,
	} {
		s := &server.Server{State: t.TempDir() + "/state", Mounts: []server.Mount{{Path: "m", URL: "own:"}, {Path: "o", URL: "overlay:own:"}},
			Stores: map[string]server.Opener{"own": func(context.Context, *server.URL) (*server.Store, error) {
				return &server.Store{Root: func() vfs.Dir { return vfs.NewImmutableDir(broken{cause}) }}, nil
			}},
			Logf: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, fmt.Sprintf(format, args...))
			}}
		check.OK(t, s.Start(t.Context()))
		d := named(t, s, server.Guest{Name: "guest"})
		for _, at := range []string{"m", "o"} {
			for what, do := range map[string]func() error{
				"stat": func() error { _, err := d.WalkStat(t.Context(), at+"/x", true); return err },
				"list": func() error {
					for _, err := range d.SubDir(at).List(t.Context()) {
						if err != nil {
							return err
						}
					}
					return nil
				},
				"glob": func() error {
					for _, err := range d.Glob(t.Context(), at+"/**") {
						if err != nil {
							return err
						}
					}
					return nil
				},
				"read":  func() error { _, _, err := d.OpenFile(at + "/x").ReadText(t.Context()); return err },
				"put":   func() error { _, err := d.Put(t.Context(), at+"/x", strings.NewReader(""), vfs.If{}); return err },
				"mkdir": func() error { _, err := d.CreateDir(t.Context(), at+"/x"); return err },
			} {
				take()
				err := do()
				if err == nil {
					t.Fatalf("%s %s: no error", what, at)
				}
				if got, part := err.Error(), "somebody"; strings.Contains(got, part) {
					t.Fatalf("%q contains %q", got, part)
				}
				if strings.Contains(err.Error(), "log has the cause") {
					if got, part := take(), cause.Error(); !strings.Contains(got, part) {
						t.Fatalf("%s %s: %v: %q does not contain %q", what, at, err, got, part)
					}
				}
			}
		}
		take()
		_, err := s.Grant(t.Context(), server.Guest{Name: "other", Path: "m/x"})
		if err == nil {
			t.Fatal("no error")
		}
		if !errors.Is(err, cause) {
			t.Fatalf("%v, want %v", err, cause)
		}
		if strings.Contains(err.Error(), "log has the cause") {
			if got, part := take(), cause.Error(); !strings.Contains(got, part) {
				t.Fatalf("%v: %q does not contain %q", err, got, part)
			}
		}
		check.OK(t, s.Close())
	}
}

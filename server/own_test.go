package server_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
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
					check.OK(t, err)
					break
				}
				if got, want := vfs.CodeOf(err), c.code; !reflect.DeepEqual(got, want) {
					t.Fatalf("%v: %v, want %v", err, got, want)
				}
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v, want %q", err, c.says)
				}
				if c.says == mistake.Error() {
					if !errors.Is(err, mistake) {
						t.Fatalf("%v, want %v", err, mistake)
					}
				}
			}
			if c.code != "" {
				s.Mounts = nil
				if err := s.Start(t.Context()); err != nil {
					t.Fatalf("the state directory is free: %v", err)
				}
				for _, m := range append(mounts, mounts...) {
					if got, want := vfs.CodeOf(s.Mount(t.Context(), m)), c.code; !reflect.DeepEqual(got, want) {
						t.Fatalf("%v, want %v", got, want)
					}
				}
			}
			s.Mounted()
			check.OK(t, s.Close())
			if c.closing != "" {
				if got, part := strings.Join(logged, "\n"), c.closing; !strings.Contains(got, part) {
					t.Fatalf("%q does not contain %q", got, part)
				}
			}
		})
	}
}

// The mount of a store in which nothing can be changed is listed as read-only, like that of a revision.
func TestOwnStoreIsReadOnly(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "f", URL: "facts:"}, {Path: "o", URL: "overlay:facts:"}}, Stores: map[string]server.Opener{"facts": openFacts}})
	for _, m := range s.Mounted() {
		if want := m.Path == "f"; m.Attenuation.ReadOnly != want {
			t.Errorf("%s: read-only is %v, want %v", m.Path, m.Attenuation.ReadOnly, want)
		}
	}
	_, err := named(t, s, server.Guest{Name: "guest"}).Put(t.Context(), "o/owner", strings.NewReader("Grace"), vfs.If{})
	check.OK(t, err)
}

// A URL can name every path.
func TestURLsOfPaths(t *testing.T) {
	for _, name := range []string{"a%25b", "a?readonly", "a#b", "a b", "a:b", "keep,a=b:c", "ü", "a&b=c"} {
		dir := filepath.Join(t.TempDir(), name)
		write(t, filepath.Join(dir, "f"), name)
		s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: server.PhysicalURL(dir)}, {Path: "o", URL: "overlay:" + server.PhysicalURL(dir)}}})
		d := named(t, s, server.Guest{Name: "guest"})
		for _, path := range []string{"p/f", "o/f"} {
			if text, _, err := d.OpenFile(path).ReadText(t.Context()); text != name || err != nil {
				t.Errorf("%s in %s: %q, %v", path, name, text, err)
			}
			_, err := d.Put(t.Context(), path, strings.NewReader(name), vfs.If{})
			check.OK(t, err)
		}
		u, err := virtualfs.ParseURL(server.GitURL(dir, name))
		check.OK(t, err)
		if u.Path != dir || u.Fragment != name || len(u.Query) > 0 {
			t.Errorf("%s became %+v", name, u)
		}
	}
}

// A scheme that no URL can name, and an option that is neither on nor off, are mistakes.
func TestMistakesInURLs(t *testing.T) {
	works := func(context.Context, *server.URL) (*server.Store, error) {
		return &server.Store{Root: memory.New(memory.Limits{}).Root}, nil
	}
	for _, scheme := range []string{"", "Own", "my-store", "9p", "own:", "a b"} {
		err := (&server.Server{State: t.TempDir(), Stores: map[string]server.Opener{scheme: works}}).Check()
		if !errors.Is(err, vfs.Invalid) {
			t.Fatalf("%v: %v, want %v", scheme, err, vfs.Invalid)
		}
		if err == nil || !strings.Contains(err.Error(), "a-z") {
			t.Fatalf("%v: %v, want %q", scheme, err, "a-z")
		}
	}
	err := (&server.Server{State: t.TempDir(), Stores: map[string]server.Opener{"own": nil}}).Check()
	if !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if err == nil || !strings.Contains(err.Error(), "own: is nil") {
		t.Fatalf("%v, want %q", err, "own: is nil")
	}
	dir := t.TempDir()
	for _, url := range []string{"physical:" + dir + "?readonly=no", "git:" + dir + "?writable=no", "git:" + dir + "?follow=off#main", "git:" + dir + "?confined=x"} {
		err := (&server.Server{State: t.TempDir(), Mounts: []server.Mount{{Path: "p", URL: url}}}).Check()
		if !errors.Is(err, vfs.Invalid) {
			t.Fatalf("%v: %v, want %v", url, err, vfs.Invalid)
		}
		if err == nil || !strings.Contains(err.Error(), "true or false") {
			t.Fatalf("%v: %v, want %q", url, err, "true or false")
		}
	}
	s := started(t, &server.Server{})
	for _, url := range []string{"physical:", "overlay:physical:", "git:#main", "git:"} { // they name nothing, not the working directory
		check.Is(t, url, s.Mount(t.Context(), server.Mount{Path: "p", URL: url}), vfs.Invalid)
	}
	for _, option := range []string{"readonly", "readonly=1", "readonly=true", "readonly=false", "readonly=0"} {
		if err := (&server.Server{State: filepath.Join(t.TempDir(), "state"), Mounts: []server.Mount{{Path: "p", URL: "physical:" + dir + "?" + option}}}).Check(); err != nil {
			t.Fatalf("%v: %v", option, err)
		}
	}
}

// An error of one of several mounts says which. What an own opener answered can be found in it.
func TestWhichMount(t *testing.T) {
	mistake := errors.New("a mistake")
	for _, m := range []server.Mount{
		{Path: "a/b", URL: "physical:" + filepath.Join(t.TempDir(), "none")},
		{Path: "a/b", URL: "memory:", Attenuation: server.Attenuation{Deny: []string{"[a"}}},
		{Path: "a/b", URL: "git:" + t.TempDir()},
		{Path: "a/b", URL: "memory:", Attenuation: server.Attenuation{Bytes: -1}},
		{Path: "a/b", URL: "memory:", Attenuation: server.Attenuation{Nodes: -1}},
		{Path: "a/b", URL: "own:"},
		{Path: "a/b", URL: "own:", Where: "here:1:2"},
	} {
		s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Mounts: []server.Mount{{Path: "m", URL: "memory:"}, m},
			Stores: map[string]server.Opener{"own": func(context.Context, *server.URL) (*server.Store, error) { return nil, mistake }}}
		err := s.Start(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		if got, part := err.Error(), "internal: internal"; strings.Contains(got, part) {
			t.Fatalf("%q contains %q", got, part)
		}
		if m.Where != "" {
			if !strings.Contains(err.Error(), m.Where) {
				t.Fatalf("%v, want %q", err, m.Where)
			}
		} else {
			if !strings.Contains(err.Error(), `mount "a/b"`) {
				t.Fatalf("%v, want %q", err, `mount "a/b"`)
			}
		}
		if m.URL == "own:" {
			if !errors.Is(err, mistake) {
				t.Fatalf("%v, want %v", err, mistake)
			}
		} else {
			if got := vfs.CodeOf(err); reflect.DeepEqual(got, vfs.Internal) {
				t.Fatalf("%v: %v", err, got)
			}
		}
	}
}

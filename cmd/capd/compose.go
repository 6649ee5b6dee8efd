package main

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"

	"capd/backend/git"
	"capd/server"
	"capd/vfs"
)

// The paths at which serve mounts what it serves by default.
const (
	projectAt = "project"
	headAt    = "ref/HEAD"
	tmpAt     = "tmp"
)

// firstGuest is the name of the guest whose locator serve prints.
const firstGuest = "guest"

// usual lets s serve one directory, and scratch space in memory. The directory's last
// commit is mounted later, since nobody asked for it.
func usual(s *server.Server, dir string, readOnly bool) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	project := &server.URL{Scheme: "physical", Path: abs}
	s.Mounts = []server.Mount{
		{Path: projectAt, URL: project.String(), Attenuation: server.Attenuation{ReadOnly: readOnly}},
		{Path: tmpAt, URL: "memory:"},
	}
	return nil
}

// mountHead mounts what the repository around dir has committed of dir, if there is
// one. It returns a note if that fails.
func mountHead(ctx context.Context, s *server.Server, dir string) (note string) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	u := committed(abs)
	if u == nil {
		return ""
	}
	err = s.Mount(ctx, server.Mount{Path: headAt, URL: u.String(), Attenuation: server.Attenuation{ReadOnly: true}})
	if err != nil {
		return headAt + "/ is not served: " + message(err)
	}
	return ""
}

// committed returns a URL of what the repository around dir has committed of dir, which
// follows new commits. It returns nil if there is none. Since nobody asked for the
// repository by name, one with parts elsewhere is left out.
func committed(dir string) *server.URL {
	repo, ok := git.FindAmbient(dir)
	if !ok {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	top, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return nil
	}
	below, err := filepath.Rel(top, real)
	if err != nil || !filepath.IsLocal(below) {
		return nil
	}
	u := &server.URL{Scheme: "git", Path: top, Query: url.Values{"follow": {""}, "confined": {""}}, Fragment: "HEAD"}
	if below != "." {
		u.Fragment += ":" + filepath.ToSlash(below)
	}
	return u
}

// message returns the text of an error, without its code and path.
func message(err error) string {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Msg != "" {
		return e.Msg
	}
	return err.Error()
}

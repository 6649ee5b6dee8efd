package main

import (
	"context"
	"path/filepath"

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
	s.Mounts = []server.Mount{
		{Path: projectAt, URL: server.PhysicalURL(abs), Attenuation: server.Attenuation{ReadOnly: readOnly}},
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
	url, there := server.Committed(abs)
	if !there {
		return ""
	}
	err = s.Mount(ctx, server.Mount{Path: headAt, URL: url, Attenuation: server.Attenuation{ReadOnly: true}})
	if err != nil {
		return headAt + "/ is not served: " + vfs.Message(err)
	}
	return ""
}

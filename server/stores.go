package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/config"
	"capd/state"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/virtualfs"
)

// stores opens what a URL names, with this process's authority.
type stores struct {
	st       state.Dir
	private  func() []private // no mount shows them
	contents contents

	directories *directories
}

func (s stores) openers() map[string]virtualfs.Opener {
	all := map[string]virtualfs.Opener{
		"physical": s.physical,
		"git":      s.git,
		"memory":   openMemory,
		"cas":      s.contents.open,
	}
	for scheme, open := range all {
		all[scheme] = func(ctx context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
			if err := forms[scheme](u); err != nil {
				return nil, err
			}
			return open(ctx, u)
		}
	}
	return all
}

// physical opens physical:DIR.
func (s stores) physical(_ context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	store, err := openPhysical(u.Path)
	if err != nil {
		return nil, err
	}
	if err := apart(s.private(), u.Path, store); err != nil {
		store.Close()
		return nil, err
	}
	store, done, err := s.directories.share(store, u.Path)
	if err != nil {
		return nil, err
	}
	root := store.Root
	if u.Flag("readonly") {
		root = store.ReadOnlyRoot
	}
	return &virtualfs.Store{
		Root: root, Close: done,
		Deny: deny.Secrets, Ask: deny.Triggers, Lasting: true,
		Detail: func() string { return "confinement: " + store.Confinement() },
	}, nil
}

// canServe answers an error if dir cannot be served, or shows a private directory.
func canServe(all []private, dir string) error {
	store, err := openPhysical(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	return apart(all, dir, store)
}

// openPhysical opens a directory of the host.
func openPhysical(dir string) (*physical.Store, error) {
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() { // opening a FIFO would wait for its writer
		return nil, vfs.Errorf(vfs.NotDir, "%s is not a directory", vfs.Printable(dir))
	}
	store, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "%s cannot be served: %v", vfs.Printable(dir), state.Reason(err))
	}
	return store, nil
}

// The defaults of memory mounts and of overlays, and those of writable git mounts, in
// which a whole working tree may be written.
const (
	memoryBytes = 64 << 20
	memoryNodes = 65_536
	gitBytes    = 1 << 30
	gitNodes    = 1 << 20
)

// openMemory opens memory:?max=SIZE&nodes=N.
func openMemory(_ context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	l, err := limits(u, memoryBytes, memoryNodes)
	if err != nil {
		return nil, err
	}
	store := memory.New(l)
	return &virtualfs.Store{
		Root: store.Root,
		Detail: func() string {
			used, _ := store.Usage()
			return fmt.Sprintf("%s of %s", config.Size(used), config.Size(l.Bytes))
		},
	}, nil
}

// upperLimits returns the limits of what is kept in memory for an overlay or a git mount.
func upperLimits(u *virtualfs.URL) (memory.Limits, error) {
	if u.Scheme == "git" {
		return limits(u, gitBytes, gitNodes)
	}
	return limits(u, memoryBytes, memoryNodes)
}

// limits returns the options max and nodes, or bytes and nodes where they are missing.
func limits(u *virtualfs.URL, bytes, nodes int64) (l memory.Limits, err error) {
	if l.Bytes, err = size(u, "max", bytes); err != nil {
		return l, err
	}
	l.Nodes, err = size(u, "nodes", nodes)
	return l, err
}

// size returns an option such as 64MiB, or usual if it is missing.
func size(u *virtualfs.URL, option string, usual int64) (int64, error) {
	if !u.Query.Has(option) {
		return usual, nil
	}
	n, err := config.ParseSize(u.Query.Get(option))
	if err != nil || n <= 0 {
		return 0, vfs.Errorf(vfs.Invalid, "%s=%s is not a size above 0; write a number of bytes, or a size such as 64MiB", option, u.Query.Get(option))
	}
	return int64(n), nil
}

// holds reports whether path is dir or lies in it. path need not exist. If dir does not exist,
// nothing lies in it.
func holds(dir, path string) (bool, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	store, err := openPhysical(dir)
	if err != nil {
		return false, err
	}
	defer store.Close()
	inside, err := store.Holds(path)
	if err != nil {
		return false, vfs.Errorf(vfs.Invalid, "%s cannot be placed: %v", vfs.Printable(path), state.Reason(err))
	}
	return inside, nil
}

// AbsoluteURL returns the URL of a store with its host paths made absolute, from the working
// directory. It answers invalid.
func AbsoluteURL(text string) (string, error) {
	u, err := virtualfs.ParseURL(text)
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	absolute(u, here)
	return u.String(), nil
}

// absolute makes the host paths of a URL absolute, from dir.
func absolute(u *virtualfs.URL, dir string) {
	if u.Below != nil {
		absolute(u.Below, dir)
	}
	switch u.Scheme {
	case "physical", "git":
		u.Path = from(dir, u.Path)
	case "cas":
		if !remoteCAS(u) {
			u.Path = from(dir, u.Path)
		}
	}
	if u.Scheme == "git" || u.Scheme == "overlay" {
		if upper := u.Query.Get("upper"); upper != "" {
			u.Query.Set("upper", from(dir, upper))
		}
	}
}

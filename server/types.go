package server

import (
	"capd/authority"
	"capd/config"
	"capd/meter"
	"capd/vfs"
	"capd/virtualfs"
)

// The types of what a Server is told and answers. They are those of the packages beneath it, so that a host
// imports this package alone.
type (
	// Attenuation is what a mount takes away from its store. The zero value withholds what the kind of store
	// withholds by default: for a directory and a git revision, secrets.
	Attenuation = virtualfs.Attenuation
	// Mounted is a mount that is there.
	Mounted = virtualfs.Mount

	// URL, Store and Opener are for stores of the host's own: see Server.Stores.
	URL    = virtualfs.URL
	Store  = virtualfs.Store
	Opener = virtualfs.Opener

	// A Change is one difference between a mount and what lies beneath it.
	Change      = virtualfs.Change
	DiffOptions = virtualfs.DiffOptions
	// A Review stands for the changes that a diff showed. Apply takes one, and then lets in these changes or none.
	Review       = virtualfs.Review
	ApplyOptions = virtualfs.ApplyOptions
	Applied      = virtualfs.Applied

	// Guest is who gets a grant, and of what.
	Guest = config.Guest
	// Grant is what is known of a grant; it is no secret.
	Grant = authority.Grant
	// Limits say how much may be held of each kind.
	Limits = meter.Limits
)

// Mount is a store, and where guests see it.
type Mount struct {
	Path string // in the tree, such as "project" or "ref/main"; "" for the whole tree
	URL  string // of the store, such as "physical:DIR", "git:REPO#main", "memory:" or "overlay:physical:DIR"; docs/trees.md lists them
	Attenuation

	Where string // it was written, such as FILE:LINE:COLUMN, for errors; may be ""
}

// said is err with where the mount was written.
func (m *Mount) said(err error) error {
	if err == nil || m.Where == "" {
		return err
	}
	return vfs.Errorf(vfs.CodeOf(err), "%s: %s", m.Where, message(err))
}

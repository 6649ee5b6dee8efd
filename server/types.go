package server

import (
	"capd/config"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/virtualfs"
)

// Types that a Server takes and returns. They belong to the packages beneath it. They are named here so that
// a host need not import those packages.
type (
	// Attenuation is what a mount takes away from its store. With the zero value a directory or a git
	// revision withholds secrets.
	Attenuation = operator.Attenuation
	// Mounted is a present mount.
	Mounted = operator.Mount

	// URL, Store and Opener are for stores of the host's own; see Server.Stores.
	URL    = virtualfs.URL
	Store  = virtualfs.Store
	Opener = virtualfs.Opener

	// A Change is one difference between a mount and what lies beneath it.
	Change      = diff.Change
	DiffOptions = operator.DiffOptions
	// A Review stands for the changes that a diff showed. Apply with a Review applies exactly these changes
	// or none.
	Review       = operator.Review
	ApplyOptions = operator.ApplyOptions
	Applied      = operator.Applied

	// Guest describes a grant to be made: who gets it, and of what.
	Guest = config.Guest
	// Grant describes a grant. It is not secret.
	Grant = operator.Grant
	// Limits says how much may be held of each kind.
	Limits = meter.Limits
)

// Mount is a store and the path where guests see it.
type Mount struct {
	Path string // in the tree, such as "project" or "ref/main"; "" for the whole tree
	URL  string // of the store, such as "physical:DIR", "git:REPO#main", "memory:" or "overlay:physical:DIR"; docs/trees.md lists them
	Attenuation

	Where string // where the mount was written, such as FILE:LINE:COLUMN, for errors; may be ""
}

// said returns err with the place where the mount was written.
func (m *Mount) said(err error) error {
	if err == nil || m.Where == "" {
		return err
	}
	return vfs.Errorf(vfs.CodeOf(err), "%s: %s", m.Where, message(err))
}

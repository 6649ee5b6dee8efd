package server

import (
	"cmp"
	"fmt"

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

// wrong answers invalid for a bound that is none.
func (m *Mount) wrong() error {
	if m.Bytes < 0 || m.Nodes < 0 {
		return vfs.Errorf(vfs.Invalid, "Bytes is %d and Nodes is %d; a bound is above 0, and 0 is no bound", m.Bytes, m.Nodes)
	}
	return nil
}

// said returns err with the place where the mount was written, or its path. The cause is err itself.
func (m *Mount) said(err error) error {
	if err == nil {
		return nil
	}
	where := cmp.Or(m.Where, fmt.Sprintf("mount %q", vfs.Printable(m.Path)))
	return &vfs.Error{Code: vfs.CodeOf(err), Msg: where + ": " + vfs.Message(err), Cause: err}
}

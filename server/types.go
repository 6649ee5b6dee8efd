package server

import (
	"cmp"

	"capd/config"
	"capd/history"
	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/virtualfs"
)

// The following types belong to the packages below, where go doc shows their fields. They are named here so that a
// host need not import those packages.
type (
	// Attenuation restricts a mount: ReadOnly, NoLinks, Deny, Ask, Bytes, Nodes and Guards. With the zero value a
	// directory or a git revision withholds secrets. See [operator.Attenuation].
	Attenuation = operator.Attenuation
	// Guard is a policy of the host's own, for Attenuation.Guards. It sees each Op before the store does. See
	// [membrane.Guard] and [membrane.Op].
	Guard = membrane.Guard
	// Op is an operation as a Guard sees it. See [membrane.Op].
	Op = membrane.Op
	// Mounted describes a mount that is there now. See [operator.Mount].
	Mounted = operator.Mount

	// Opener opens a store of the host's own by URL; see Server.Stores and [virtualfs.Opener].
	Opener = virtualfs.Opener
	// Store is what an Opener returns. It needs a Root. Nothing in it is withheld unless it sets Deny and Ask. See
	// [virtualfs.Store].
	Store = virtualfs.Store
	// URL names a store: Scheme, Path, Query and Fragment, or Below for an overlay. Its String escapes what a path
	// may not hold. See [virtualfs.URL].
	URL = virtualfs.URL

	// A Change is one difference between a mount and the tree below it. See [diff.Change].
	Change = diff.Change
	// DiffOptions say what to compare. The zero value means all changes of a mount. See [operator.DiffOptions].
	DiffOptions = operator.DiffOptions
	// A Review identifies the changes that a diff showed. Apply with a Review applies exactly these changes or none.
	Review = operator.Review
	// ApplyOptions say what to apply. The zero value means all changes. See [operator.ApplyOptions].
	ApplyOptions = operator.ApplyOptions
	// Applied is the result of an apply. Its ID is for FS.Undo. See [operator.Applied].
	Applied = operator.Applied

	// Guest describes a grant to be made: a Name, a Path in the tree, ReadOnly and Limits. See [config.Guest].
	Guest = config.Guest
	// Invitation describes an invitation to be made: its Subject, Permissions, Source, Expires and LocatorFile. See [config.Invite].
	Invitation = config.Invite
	// Grant describes a grant: Guest, ID, Path, Mode, State and Parent. It is not secret. See [operator.Grant].
	Grant = operator.Grant
	// HistoryBounds say how much of what changes displaced is kept. The zero value is 256 MiB, 1,000 changes and 24 hours of each
	// grant, and 2 GiB of all.
	HistoryBounds = history.Bounds
	// Retention says how long the record of changes is kept. The zero value is a year and 1 GiB. See [record.Retention].
	Retention = record.Retention
	// Invite describes an invitation: its ID, Subject, Permissions, Source, State and times. It is not secret. See [operator.Invite].
	Invite = operator.Invite
	// InviteTerms are Permissions, a Source and Expires. See [operator.InviteTerms].
	InviteTerms = operator.InviteTerms
	// Permission is some rights in the roots of one kind, which an invitation gives without asking. See [operator.Permission].
	Permission = operator.Permission
	// Limits says how much may be held of each kind, such as Limits{meter.StoredBytes: 1 << 30}. docs/limits.md and
	// package meter list the kinds.
	Limits = meter.Limits
)

// Mount is a store and the path where guests see it.
type Mount struct {
	Path string // in the tree, such as "project" or "ref/main"; "" for the whole tree
	URL  string // of the store, such as "physical:DIR", "git:REPO#main", "memory:" or "overlay:physical:DIR"; docs/trees.md lists them
	Attenuation

	Where string // where the mount was written, such as FILE:LINE:COLUMN, for errors; may be ""
}

// PhysicalURL returns the URL of a directory of the host. Any path can be given: the URL escapes what it has to.
func PhysicalURL(dir string) string { return (&URL{Scheme: "physical", Path: dir}).String() }

// GitURL returns the URL of a revision of the git repository in a directory. "" is HEAD.
func GitURL(repo, revision string) string {
	return (&URL{Scheme: "git", Path: repo, Fragment: revision}).String()
}

// reserved answers invalid for a path below which the host mounts what is for one guest alone.
func (m *Mount) reserved() error {
	if operator.InScopes(m.Path) {
		return vfs.At(m.Path, vfs.Errorf(vfs.Invalid, "the host mounts what is for one guest alone below %s; mount this elsewhere", operator.ScopesDir))
	}
	return nil
}

// wrong answers invalid for a bound below 0.
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
	where := cmp.Or(m.Where, `mount "`+vfs.Printable(m.Path)+`"`)
	return &vfs.Error{Code: vfs.CodeOf(err), Msg: where + ": " + vfs.Message(err), Cause: err}
}

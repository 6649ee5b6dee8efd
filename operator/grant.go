// Package operator has the values that a host and its operator exchange: grants and what
// they use, mounts and their changes, the state of the host. The authority and the
// virtual file system of a host answer them, package cap/wire translates them, and
// package client/console has them for the operator's programs. Nothing here does
// anything, so that a client need not link what serves it.
package operator

import (
	"cmp"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Grant describes a grant. It holds no secret.
type Grant struct {
	Guest   string  `json:"guest"`   // the holder's name: that of its subject, or of a share
	Subject Subject `json:"subject"` // who holds it; of a share, who shared it
	ID      string  `json:"id"`      // not secret
	Path    string  `json:"path"`    // in the host's tree; "" for all of it
	Mode    Mode    `json:"mode"`    // what was granted: read-only without the rights to write, delete and move
	State   State   `json:"state"`   // what it is now
	Parent  string  `json:"parent"`  // id of the grant it was shared from, or ""

	Root   string          `json:"root"`   // id of the root that it is in, or ""
	Source string          `json:"source"` // who gave it: one of the words By…
	Rights membrane.Rights `json:"rights"` // what was granted, as a list of names

	ExpiresMs int64 `json:"expiresMs,omitempty"` // when it expires, in milliseconds since the Unix epoch; 0: never
	UnusedMs  int64 `json:"unusedMs,omitempty"`  // after how many milliseconds without use it expires; 0: never
	UsesLeft  int64 `json:"usesLeft,omitempty"`  // how often it can still be restored; 0: any number, -1: not at all
}

// Mode is what was granted.
type Mode string

// State is what a grant is now.
type State string

const (
	ReadWrite Mode = "read-write"
	ReadOnly  Mode = "read-only"

	Active  State = "active"
	Locked  State = "locked" // read-only until the host unlocks it
	Revoked State = "revoked"
	Expired State = "expired"
)

// Terms are the terms of a grant.
type Terms struct {
	Root          string          // the id of the root that the grant names, in which its path is; "" for a path in the tree
	ReadOnly      bool            // without the rights to write, delete and move
	Rights        membrane.Rights // which rights to give; 0 means what is usual: all but link, where no root says otherwise
	Links         bool            // and the right link besides
	BeyondDefault bool            // the defaults of the roots do not bound the grant
	Limits        meter.Limits    // the default of each limit is the host's
	Scratch       int64           // how many bytes the subject may keep in a directory of its own beside a workspace; 0 is no directory
	Uses          int64           // how often it can be restored; 0 is any number
	Source        string          // who granted; "" is ByOperator
	Expires       time.Duration   // after which it ends; 0 is never
	Unused        time.Duration   // without any use, after which it ends; 0 is never
}

// Keep returns the rights that are given on t. It answers invalid if there are none.
func (t Terms) Keep() (membrane.Rights, error) {
	keep := cmp.Or(t.Rights, membrane.AllRights)
	if t.Links {
		keep |= membrane.Link
	}
	if t.ReadOnly {
		keep &^= membrane.ChangeRights
	}
	if keep == 0 {
		return 0, vfs.Errorf(vfs.Invalid, "no right is left: read-only takes %v away; name others", membrane.ChangeRights)
	}
	return keep, nil
}

// ModeOf returns the mode of a grant with the rights r.
func ModeOf(r membrane.Rights) Mode {
	if r&membrane.ChangeRights == 0 {
		return ReadOnly
	}
	return ReadWrite
}

// Who granted.
const (
	ByOperator = "operator" // somebody at the console, or a program that is a host
	ByServe    = "serve"    // capd serve, to its first guest
	ByConfig   = "config"   // the configuration
)

// Package operator has the values that a host and its operator exchange: grants and what
// they use, mounts and their changes, the state of the host. The authority and the
// virtual file system of a host answer them, package cap/wire translates them, and
// package client/console has them for the operator's programs. Nothing here does
// anything, so that a client need not link what serves it.
package operator

import "capd/meter"

// Grant describes a grant. It holds no secret.
type Grant struct {
	Guest   string  `json:"guest"`   // the holder's name: that of its subject, or of a share
	Subject Subject `json:"subject"` // who holds it; of a share, who shared it
	ID      string  `json:"id"`      // not secret
	Path    string  `json:"path"`    // in the host's tree; "" for all of it
	Mode    Mode    `json:"mode"`    // what was granted
	State   State   `json:"state"`   // what it is now
	Parent  string  `json:"parent"`  // id of the grant it was shared from, or ""
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
)

// Terms are the terms of a grant.
type Terms struct {
	ReadOnly bool
	Limits   meter.Limits // the default of each limit is the host's
}

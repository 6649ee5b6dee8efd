package authority

import (
	"crypto/sha256"
	"sync/atomic"

	"capd/locator"
	"capd/meter"
	"capd/vfs"
)

// Grant is what is known of a grant.
type Grant struct {
	Guest  string // the holder's name
	ID     string // not secret
	Path   string // in the host's tree; "" for all of it
	Mode   Mode   // what was granted
	State  State  // what it is now
	Parent string // id of the grant it was shared from, or ""
}

// Mode is what was granted.
type Mode string

// State is what a grant is now.
type State string

// The modes and states.
const (
	ReadWrite Mode = "read-write"
	ReadOnly  Mode = "read-only"

	Active  State = "active"
	Locked  State = "locked" // read-only until the host unlocks it
	Revoked State = "revoked"
)

type grant struct {
	Grant
	digest  digest
	node    vfs.Node                    // what the locator restores; nil once it was found revoked, or unmounted
	control atomic.Pointer[vfs.Control] // nil once the grant is buried
	ended   error                       // set before that: what every call through it answers
	unwatch func()
	root    *grant // itself, unless shared
	order   uint64 // its id's number
	holder  *guest
	meter   *meter.Meter // what is done through it counts there; nil once the grant is buried
	giver   *meter.Meter // of a share: whose it is

	// Of a root grant, of what was shared from it, under the host's lock.
	gone      []*grant // those that have ended and are remembered, the first to end first
	forgotten bool     // the root grant itself
}

// shared reports whether g was shared from another.
func (g *grant) shared() bool { return g.root != g }

// mint makes the secret that stands for g, of which g keeps the digest.
func (g *grant) mint() [locator.SecretSize]byte {
	secret := locator.NewSecret()
	g.digest = sha256.Sum256(secret[:])
	return secret
}

// dead reports whether g was revoked. It waits for nothing.
func (g *grant) dead() bool { return g.end() != nil }

// end returns what every call through g answers once it was revoked, has expired or
// was unmounted; nil before. It waits for nothing.
func (g *grant) end() error {
	if ctl := g.control.Load(); ctl != nil {
		return ctl.Ended()
	}
	return g.ended
}

// now is the grant with its state. h.mu is held.
func (g *grant) now() Grant {
	out := g.Grant
	switch {
	case g.dead():
		out.State = Revoked
	case g.control.Load().Locked():
		out.State = Locked
	}
	return out
}

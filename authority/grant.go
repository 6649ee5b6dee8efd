package authority

import (
	"crypto/sha256"
	"sync/atomic"

	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

type grant struct {
	operator.Grant
	digest  digest
	node    vfs.Node                         // what the locator restores; nil once it has ended
	control atomic.Pointer[membrane.Control] // nil once the grant is buried
	ended   error                            // set before control is nil: what every call through the grant answers
	unwatch func()
	root    *grant // g itself, unless g is a share
	order   uint64 // its id's number
	holder  *guest
	meter   *meter.Meter // in which its use counts; nil once the grant is buried
	giver   *meter.Meter // of a share: the meter from which it was shared

	// Of a root grant: the shares that came from it. Host.mu guards them.
	gone      []*grant // ended and remembered shares, the first to end first
	forgotten bool     // the root grant itself is forgotten
}

// shared reports whether g is a share.
func (g *grant) shared() bool { return g.root != g }

// mint makes the secret that stands for g, and keeps its digest in g.
func (g *grant) mint() [locator.SecretSize]byte {
	secret := locator.NewSecret()
	g.digest = sha256.Sum256(secret[:])
	return secret
}

// dead reports whether g has ended. It does not wait.
func (g *grant) dead() bool { return g.end() != nil }

// end returns what every call through g answers once g was revoked, has expired, or its
// tree was unmounted. Before that it returns nil. It does not wait.
func (g *grant) end() error {
	if ctl := g.control.Load(); ctl != nil {
		return ctl.Ended()
	}
	return g.ended
}

// now returns the grant with its present state. h.mu is held.
func (g *grant) now() operator.Grant {
	out := g.Grant
	switch {
	case g.dead():
		out.State = operator.Revoked
	case g.control.Load().Locked():
		out.State = operator.Locked
	}
	return out
}

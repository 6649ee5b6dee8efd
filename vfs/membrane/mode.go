package membrane

import "capd/vfs"

// mode is a set of refusals: a set bit refuses. The first nine bits refuse one of the
// [Rights] each, in their order. The bits above modeBits count generations. The
// generation changes when a route appears or disappears below a gate, or below a gate it
// was derived from. Views then look up again which gate binds them.
type mode uint64

const (
	noRead mode = 1 << iota
	noWrite
	noDelete
	noList
	noMove
	noArchive
	noWatch
	noMetadata
	noLink
	blind // no name is looked up
	revoked
	expired
	unmounted // the tree is no longer in its namespace
	ending    // the host ends
	hidden    // a mount covers it
	gone      // nothing holds the gate, and it has left its tree
	timed     // it expires at some time; refuses nothing by itself

	modeBits  = oneGen - 1
	oneGen    = mode(1) << 17
	deadModes = revoked | expired | unmounted | ending

	noRights = mode(EveryRight)
	changes  = noWrite | noDelete | noMove                    // what readOnly() and a lock refuse
	looks    = noRead | noList | noWatch | noMetadata | blind // what SetReadable(false) refuses
)

var (
	// ErrUnmounted is the error for a call on a node whose tree was unmounted.
	ErrUnmounted = vfs.Errorf(vfs.Stale, "what was mounted here was unmounted; look it up again")

	// ErrCovered is the error for a call on a node that a mount covers.
	ErrCovered = vfs.Errorf(vfs.Stale, "something was mounted over this; look it up again")

	// ErrEnded is the error for a call through a gate whose host has ended, or has ended the gate to change its grant.
	ErrEnded = vfs.Errorf(vfs.Stale, "its host has ended this; the locator works again while the host runs")

	errUnreadable = vfs.Errorf(vfs.Denied, "the host has stopped reading through this capability")
)

// refuse returns the error for an operation that needs all of need, or nil. Revoked and
// expired come before stale, stale before denied, denied before readOnly.
func (m mode) refuse(need mode) error {
	switch {
	case m&(need|deadModes|hidden|gone) == 0:
		return nil
	case m&revoked != 0:
		return vfs.Revoked
	case m&expired != 0:
		return vfs.Expired
	case m&unmounted != 0:
		return ErrUnmounted
	case m&ending != 0:
		return ErrEnded
	case m&hidden != 0:
		return ErrCovered
	case m&gone != 0:
		return vfs.ErrClosed
	case m&blind != 0 && need&looks != 0:
		return errUnreadable
	}
	return m.lacks(need)
}

// lacks returns the error for the first right in need that m refuses: those whose lack
// is denied come first.
func (m mode) lacks(need mode) error {
	missing := Rights(m & need & noRights)
	first := missing &^ ChangeRights
	if first == 0 {
		if first = missing; m&changes == changes {
			return vfs.ReadOnly
		}
	}
	for i := range errLacks {
		if first&(1<<i) != 0 {
			return errLacks[i]
		}
	}
	return vfs.Denied
}

// errLacks has the error for each right that is missing. They are made once, so that a
// refusal allocates nothing.
var errLacks = func() (errs [len(rightNames)]error) {
	for i, name := range rightNames {
		code := vfs.Denied
		if ChangeRights&(1<<i) != 0 {
			code = vfs.ReadOnly
		}
		errs[i] = vfs.Errorf(code, "this capability lacks the right %q; ask its giver for one that has it", name)
	}
	return errs
}()

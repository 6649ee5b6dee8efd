package operator

import "context"

// Event is one entry of a host's record: a change, a request for an approval, a decision.
type Event struct {
	Number uint64 // counts from 0
	Entry  []byte // a JSON object, as capd audit --json prints it
}

// Events is the record of a host, as an operator follows and checks it.
type Events interface {
	// Events returns at most max entries from number from on. If there are none it waits until there is one, or
	// until ctx ends. next is the number to continue with, and missed how many entries the record no longer has. With
	// from beyond the end, nothing is returned, and next is the end.
	Events(ctx context.Context, from uint64, max int) (all []Event, next, missed uint64, err error)
	// Checkpoint signs what the record has now. A given checkpoint is kept for ever: what was removed from the record because of
	// its age can still be compared with it.
	Checkpoint(given bool) (note string, err error)
}

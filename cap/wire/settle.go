package wire

import (
	"context"
	"errors"
	"time"

	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

// settleTime is how long a guest may take to resolve a capability that it has only
// promised. The host holds the call's parameters meanwhile.
const settleTime = 10 * time.Second

// Settle waits until it is known where c leads. It answers busy if the guest takes too
// long. If c is the promise of a call of this host that has failed, Settle answers its error.
func Settle(ctx context.Context, c *vat.Cap) error {
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err := c.Settle(wait)
	switch {
	case err == nil:
		if e := c.Err(); e != nil && !e.Own() && !e.Remote() { // the guest's words are no answers of this host
			return Decode(e)
		}
		return nil
	case ctx.Err() != nil: // the call has ended
		return ctx.Err()
	}
	if _, full := errors.AsType[*meter.Full](err); full { // too many wait
		return err
	}
	return vfs.Errorf(vfs.Busy, "the capability is a promise that was not resolved for %v; send it when it is resolved", settleTime)
}

package record

import (
	"context"
	"time"

	"capd/database"
	"capd/operator"
)

// Forwarder sends entries to somewhere else.
type Forwarder interface {
	// Send returns when all of them have arrived. After an error they are sent again.
	Send(ctx context.Context, entries []Numbered) error
	// Close releases what the Forwarder holds. It is called once, after the last Send.
	Close(ctx context.Context) error
}

const (
	forwardedAtOnce = 512 // entries
	firstPause      = time.Second
	longestPause    = time.Minute
)

// Forward sends every entry to f, in order and at least once, until ctx ends. How far it came is kept under name, and goes on from there
// after a restart; the first time it begins with the oldest entry. While Send fails it is tried again, at first after a second, then less
// often, up to once a minute. What is removed from the record meanwhile is not sent, and logged.
func (l *Log) Forward(ctx context.Context, name string, f Forwarder) error {
	var next int64
	key := "forwarded " + name
	err := l.db.Read(ctx, func(r *database.Rows) (err error) {
		next, err = number(r, key)
		return err
	})
	for err == nil && ctx.Err() == nil {
		if next, err = l.forward(ctx, f, next); err == nil {
			came := next
			l.db.Later(func(tx *database.Tx) error { return putNumber(tx, key, came) })
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// forward waits for entries from number from on, and sends them. It returns the number to go on with.
func (l *Log) forward(ctx context.Context, f Forwarder, from int64) (next int64, err error) {
	all, end, missed, err := l.Events(ctx, uint64(from), forwardedAtOnce)
	if err != nil || len(all) == 0 {
		return int64(end), err
	}
	if missed > 0 {
		l.logf("capd: %d entries of the record were removed before they were sent to OpenTelemetry", missed)
	}
	entries, err := decoded(all)
	if err != nil {
		return from, err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f.Send(ctx, entries)
		if err == nil {
			return int64(end), nil
		}
		if pause == firstPause && ctx.Err() == nil {
			l.logf("capd: entries of the record could not be sent to OpenTelemetry, which is tried again: %v", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return from, ctx.Err()
		}
	}
}

func decoded(all []operator.Event) (entries []Numbered, err error) {
	for _, event := range all {
		e, err := stored{int64(event.Number), event.Entry}.entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

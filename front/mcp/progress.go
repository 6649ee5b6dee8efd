package mcp

import (
	"context"
	"time"
)

// progress is how often a client that wants it is told that a call is still under way. Many give up on one that says nothing for a minute.
const progress = 5 * time.Second

// waiting is what such a client is told.
const waiting = "under way; a change that needs an approval waits for whoever runs the host"

// telling has tell called with 1, 2 and so on while a call is under way, until the returned function is called. After that it is not called.
func (s *service) telling(ctx context.Context, tell func(ctx context.Context, n int)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(s.progress)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
				if ctx.Err() == nil {
					tell(ctx, n)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

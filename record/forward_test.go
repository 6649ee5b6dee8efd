package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capd/database"
	"capd/vfs/vfstest/check"
)

// receiver is a Forwarder that fails for a while.
type receiver struct {
	mu    sync.Mutex
	down  bool
	tries int
	got   []int64
}

func (r *receiver) Send(_ context.Context, entries []Numbered) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries++; r.down {
		return errors.New("nobody listens")
	}
	for _, e := range entries {
		r.got = append(r.got, e.Number)
	}
	return nil
}

// fail makes Send fail or not, and returns how often it was tried since the last fail.
func (r *receiver) fail(down bool) (tries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tries, r.tries, r.down = r.tries, 0, down
	return tries
}

func (r *receiver) Close(context.Context) error { return nil }

// Every entry is sent, in order, also after the receiver was down and after a restart, which goes on where it was.
func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		var said []string
		l, err := Open(db, Options{Logf: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
		check.OK(t, err)
		defer func() { check.OK(t, l.Close()) }()
		to := &receiver{}
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- l.Forward(ctx, "there", to) }()
			return func() {
				cancel()
				check.OK(t, <-done)
			}
		}
		sent := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(to.got) != n {
				t.Fatalf("%d entries arrived, not %d", len(to.got), n)
			}
			for i, number := range to.got {
				if number != int64(i) {
					t.Fatalf("entry %d came at place %d", number, i)
				}
			}
		}
		stop := start()
		fill(t, db, l, 1200)
		sent(1201)
		to.fail(true)
		fill(t, db, l, 3)
		sent(1201)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := to.fail(false); n < 10 || n > 17 {
			t.Errorf("in 10 minutes it tried %d times", n)
		}
		if text := strings.Join(said, "\n"); strings.Count(text, "nobody listens") != 1 {
			t.Errorf("it said %q", text)
		}
		time.Sleep(longestPause)
		sent(1204)
		fill(t, db, l, 1)
		sent(1205)
		time.Sleep(time.Second) // how far it came is on disk
		stop()
		fill(t, db, l, 5)
		sent(1205)
		stop = start()
		sent(1210)
		stop()
	})
}

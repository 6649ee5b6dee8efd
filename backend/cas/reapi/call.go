package reapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"capd/vfs"
)

// tries is how often a call is tried while the server is unavailable.
const tries = 5

// firstPause is the pause after the first try. Each further pause is twice as long.
var firstPause = 50 * time.Millisecond

// call makes an idempotent call. It tries again while the server is unavailable.
func call[R any](ctx context.Context, s *Store, do func(context.Context) (R, error)) (answer R, err error) {
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
		answer, err = do(limited)
		cancel()
		if err == nil {
			return answer, nil
		}
		if err := again(ctx, err, try); err != nil {
			return answer, err
		}
	}
}

// again waits before the next try, or returns why there is none.
func again(ctx context.Context, err error, try int) error {
	if !unavailable(err) || try >= tries {
		return explain(ctx, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(firstPause << (try - 1)):
		return nil
	}
}

func unavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// explain turns an error of a call into one with a code. It never passes on the
// server's text, which may name machines.
func explain(ctx context.Context, err error) error {
	if vfs.IsAnswer(err) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known, ok := meanings[status.Code(err)]
	if !ok {
		return vfs.Hide(err)
	}
	return &vfs.Error{Code: known.code, Msg: known.msg, Cause: err}
}

type meaning struct {
	code vfs.Code
	msg  string
}

var (
	unreachable = meaning{vfs.Busy, "the store of this content cannot be reached just now; try again"}
	refused     = meaning{vfs.Denied, "the store of this content refuses this host; ask the host to change that"}
	damaged     = meaning{vfs.Corrupt, "the store of this content has lost some of it; put it again"}
)

var meanings = map[codes.Code]meaning{
	codes.NotFound:          {vfs.NotFound, "the store has no content with this digest"},
	codes.InvalidArgument:   {vfs.Invalid, "the store of this content takes no such request"},
	codes.ResourceExhausted: {vfs.Limit, "the store of this content has no room left, or sends more at once than was asked for"},
	codes.Unimplemented:     {vfs.Unsupported, "the store of this content cannot do that"},
	codes.Unavailable:       unreachable,
	codes.DeadlineExceeded:  unreachable,
	codes.Canceled:          unreachable,
	codes.Aborted:           unreachable,
	codes.PermissionDenied:  refused,
	codes.Unauthenticated:   refused,
	codes.DataLoss:          damaged,
	codes.OutOfRange:        damaged,
}

// watchdog ends a stream that makes no progress.
type watchdog struct {
	timer *time.Timer
	after time.Duration
}

// watched returns a context that ends when the watchdog hears of no progress for the
// timeout of a call.
func (s *Store) watched(ctx context.Context) (context.Context, *watchdog, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchdog{time.AfterFunc(s.o.Timeout, cancel), s.o.Timeout}
	return ctx, w, func() { w.timer.Stop(); cancel() }
}

func (w *watchdog) progress() { w.timer.Reset(w.after) }

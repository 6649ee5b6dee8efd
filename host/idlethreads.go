package host

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	retirePeriod = time.Second
	// spareThreads is how many idle ones are left alone.
	spareThreads = 16
)

// RetireThreads ends threads of this process that have nothing to do, until ctx ends.
//
// Go makes a thread for each call that waits in the kernel while others have
// something to do, and keeps all of them for good. After a slow disk they stay, count
// against the system's limits, and each has its stack. Once a second half of
// the idle threads beyond 16 is ended, unless threads were made in the last three seconds,
// which says that they are needed. So of 500 threads 20 are left after eight seconds, and a
// process whose calls wait now and again spends little on making them anew.
//
// It is for a program and not for a library: a child that was started with
// SysProcAttr.Pdeathsig from a goroutine that is not locked to its thread ends when
// that thread does.
func RetireThreads(ctx context.Context) {
	t := time.NewTicker(retirePeriod)
	defer t.Stop()
	for r := newRetirement(); ; r.step() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// retirement is what is known of the threads of one process.
type retirement struct {
	last  int // how many there were a second ago, or ought to be since
	ended int // a second ago
	calm  int // for how many seconds none was made
}

func newRetirement() *retirement {
	all, _ := countThreads()
	return &retirement{last: all}
}

// calmSeconds is for how long no thread was made before any are ended.
const calmSeconds = 3

func (r *retirement) step() {
	all, idle := countThreads()
	if r.calm++; all > r.last+r.ended/4 { // some of what was ended may not be gone yet
		r.calm = 0
	}
	r.last, r.ended = all, 0
	if r.calm < calmSeconds || idle <= spareThreads {
		return
	}
	r.ended = (idle - spareThreads + 1) / 2
	r.last -= r.ended
	for range r.ended {
		retireThread()
	}
}

// countThreads counts the threads of Go's runtime, and those of them that do nothing,
// about.
func countThreads() (all, idle int) {
	s := []metrics.Sample{{Name: "/sched/threads/total:threads"}, {Name: "/sched/goroutines/not-in-go:goroutines"}}
	metrics.Read(s)
	for _, one := range s {
		if one.Value.Kind() != metrics.KindUint64 {
			return 0, 0
		}
	}
	all = int(s[0].Value.Uint64())
	return all, all - int(s[1].Value.Uint64()) - runtime.GOMAXPROCS(0)
}

// retireThread ends one thread: a goroutine that ends while it is locked to its thread takes
// it along; see [runtime.LockOSThread]. An idle thread goes on with what that one did.
func retireThread() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
	}()
	<-done
}

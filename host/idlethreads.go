package host

import (
	"context"
	"runtime"
	"time"
)

const (
	retirePeriod = time.Second
	// spareThreads is how many idle threads are left alone.
	spareThreads = 16
)

// RetireThreads ends idle threads of this process, until ctx ends.
//
// Go starts a thread for each call that waits in the kernel while other goroutines can
// run, and keeps these threads for good. After a slow disk they remain: they count
// against the system's limits, and each has a stack. Once a second RetireThreads ends
// half of the idle threads beyond 16. It ends none if threads were started in the last
// three seconds, since they are needed then. So of 500 idle threads 20 are left after
// eight seconds, and a process whose calls wait now and then seldom has to start threads
// anew.
//
// RetireThreads is for programs, not for libraries. A child that was started with
// SysProcAttr.Pdeathsig, from a goroutine that is not locked to its thread, ends when
// that thread ends.
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

// retirement is the state of RetireThreads.
type retirement struct {
	last  int // threads a second ago, less those ended then
	ended int // threads ended a second ago
	calm  int // for how many seconds no thread was started
}

func newRetirement() *retirement {
	all, _ := countThreads()
	return &retirement{last: all}
}

// calmSeconds is for how many seconds no thread may have been started before any are
// ended.
const calmSeconds = 3

func (r *retirement) step() {
	all, idle := countThreads()
	if r.calm++; all > r.last+r.ended/4 { // some of the ended threads may still be there
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

// countThreads returns how many threads Go's runtime has, and roughly how many of them
// are idle.
func countThreads() (all, idle int) {
	s := sample("/sched/threads/total:threads", "/sched/goroutines/not-in-go:goroutines")
	all = int(s[0])
	return all, all - int(s[1]) - runtime.GOMAXPROCS(0)
}

// retireThread ends one thread: a goroutine that ends while it is locked to its thread
// ends the thread, too; see [runtime.LockOSThread]. An idle thread takes over the work of
// the ended one.
func retireThread() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
	}()
	<-done
}

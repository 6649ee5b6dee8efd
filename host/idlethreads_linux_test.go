package host

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// block has n calls wait in the kernel until the returned function is called.
func block(t *testing.T, n int) (unblock func()) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			var b [1]byte
			unix.Read(p[0], b[:])
		})
	}
	for threads(t) < n {
		time.Sleep(time.Millisecond)
	}
	return func() {
		unix.Close(p[1])
		all.Wait()
		unix.Close(p[0])
	}
}

// threads returns how many threads the system counts in this process.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// settle waits until the system has ended the threads that the runtime has ended. Two
// threads of the runtime's own may remain, which it may not count.
func settle(t *testing.T) {
	for range 1000 {
		if all, _ := countThreads(); all+2 >= threads(t) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("threads do not end")
}

// TestRetireThreads: soon after calls waited in the kernel few of their threads are left,
// and no thread in use is ended.
func TestRetireThreads(t *testing.T) {
	const many = 300
	r := newRetirement()
	unblock := block(t, many)
	for range 6 {
		r.step()
	}
	if n := threads(t); n < many {
		t.Errorf("%d threads are left of %d that are in use", n, many)
	}
	unblock()
	after := threads(t)
	for range 9 {
		r.step()
		settle(t)
	}
	t.Logf("%d threads when %d calls had waited, %d after 9 s", after, many, threads(t))
	if n := threads(t); after < many || n > spareThreads+20 {
		t.Errorf("%d threads are left of %d", n, after)
	}
}

// TestRetireThreadsInUse: a process that needs more threads now and then keeps them.
func TestRetireThreadsInUse(t *testing.T) {
	r := newRetirement()
	for n := 40; n <= 200; n += 40 {
		block(t, n)()
		r.step()
		r.step()
	}
	if n := threads(t); n < 190 {
		t.Errorf("%d threads are left", n)
	}
}

// BenchmarkBurst makes calls that wait in the kernel, 64 at once, and ends threads after
// each burst.
func BenchmarkBurst(b *testing.B) {
	for _, how := range []string{"kept", "retired"} {
		b.Run(strings.ToLower(how), func(b *testing.B) {
			for b.Loop() {
				var p [2]int
				unix.Pipe2(p[:], unix.O_CLOEXEC)
				var all sync.WaitGroup
				for range 64 {
					all.Go(func() {
						var one [1]byte
						unix.Read(p[0], one[:])
					})
				}
				unix.Close(p[1])
				all.Wait()
				unix.Close(p[0])
				if how == "retired" {
					for range 32 {
						retireThread()
					}
				}
			}
		})
	}
}

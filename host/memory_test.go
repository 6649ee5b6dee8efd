package host

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"time"

	"capd/meter"
)

// Free memory is given back while nothing is done, and the limit follows the number of connected
// grants.
func TestBoundMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	m := meter.NewHost(nil)
	for range 3 {
		if err := m.Grant("g", nil).Take(meter.Connections, 1); err != nil {
			t.Fatal(err)
		}
	}
	garbage := make([][]byte, 100)
	for i := range garbage {
		garbage[i] = make([]byte, 1<<20)
	}
	garbage = nil
	_ = garbage
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		BoundMemory(ctx, m)
	}()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		limit, free := debug.SetMemoryLimit(-1), readMemory().free
		if limit == baseMemory+3*grantMemory && free < spareMemory {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the limit is %d, and %d bytes are free", limit, free)
		}
	}
	cancel()
	<-ended
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		t.Errorf("the limit stays %d", n)
	}
}

func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		grants int
		live   uint64
		want   int64
	}{
		{0, 0, 192 << 20}, {1, 0, 192 << 20}, {16, 0, 64<<20 + 16*128<<20}, {1, 1 << 30, 3<<29 + 64<<20},
	} {
		if got := memoryLimit(c.grants, c.live); got != c.want {
			t.Errorf("%d grants, %d live: %d, want %d", c.grants, c.live, got, c.want)
		}
	}
}

package host

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"capd/meter"
)

// Memory of a process, in bytes.
const (
	baseMemory  = 64 << 20  // without guests
	grantMemory = 128 << 20 // for each root grant with a connection
	spareMemory = 32 << 20  // free memory that need not be given back
	calmBytes   = 4 << 20   // less than this, allocated in a period, is calm
)

// memoryPeriod is how often BoundMemory looks at the memory in use.
const memoryPeriod = 250 * time.Millisecond

// freePeriod is the shortest time between two returns of memory to the system, each of
// which looks at all memory.
const freePeriod = 3 * time.Second

// BoundMemory keeps this process from holding much more memory than it uses, until ctx
// ends.
//
// By default Go collects garbage when there is as much garbage as memory in use. What
// guests can make a host hold is bounded, but twice that is much. So four times a second
// BoundMemory sets Go's memory limit, which makes Go collect sooner. The limit is the
// larger of two sums: 64 MiB plus 128 MiB for each connected root grant of m, and 64 MiB
// plus one and a half times the memory in use. While little is allocated, BoundMemory
// gives free memory back to the system.
//
// BoundMemory is for programs, not for libraries. It does nothing when GOMEMLIMIT is set.
func BoundMemory(ctx context.Context, m *meter.Host) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	defer debug.SetMemoryLimit(math.MaxInt64)
	t := time.NewTicker(memoryPeriod)
	defer t.Stop()
	var freed time.Time
	for before := readMemory(); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := readMemory()
		debug.SetMemoryLimit(memoryLimit(connected(m), now.live))
		if now.free > spareMemory && now.allocated-before.allocated < calmBytes && time.Since(freed) > freePeriod {
			freed = time.Now()
			debug.FreeOSMemory()
		}
		before = now
	}
}

// memoryLimit returns the memory limit for a number of connected root grants and of bytes
// in use.
func memoryLimit(grants int, live uint64) int64 {
	return max(baseMemory+int64(max(grants, 1))*grantMemory, int64(live+live/2)+baseMemory)
}

// connected returns how many root grants have a connection.
func connected(m *meter.Host) (n int) {
	for _, g := range m.All().Parts() {
		if g.Used(meter.Connections) > 0 {
			n++
		}
	}
	return n
}

// memory is what Go's runtime reports about memory, in bytes.
type memory struct {
	live      uint64 // in use at the last collection
	free      uint64 // garbage or empty, and not given back
	allocated uint64 // since the process began
}

func readMemory() memory {
	s := sample("/gc/heap/live:bytes", "/gc/heap/allocs:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/objects:bytes")
	m := memory{live: s[0], allocated: s[1], free: s[2]}
	if objects := s[3]; objects > m.live {
		m.free += objects - m.live
	}
	return m
}

// sample reads metrics of the runtime. What it does not know is 0.
func sample(names ...string) []uint64 {
	s, all := make([]metrics.Sample, len(names)), make([]uint64, len(names))
	for i, name := range names {
		s[i].Name = name
	}
	metrics.Read(s)
	for i, one := range s {
		if one.Value.Kind() == metrics.KindUint64 {
			all[i] = one.Value.Uint64()
		}
	}
	return all
}

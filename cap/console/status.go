package console

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/version"
)

// unknown is the default of Options.Process.
func unknown() operator.Process { return operator.Process{Connections: -1, Descriptors: -1} }

func (s *server) status(c vat.Call[schema.Console_status_Params, schema.Console_status_Results]) error {
	if c.Params().Collect() {
		runtime.GC()         // the first collection keeps what is in pools,
		debug.FreeOSMemory() // and this one does not
	}
	w, err := c.Results().NewStatus()
	if err != nil {
		return err
	}
	return setStatus(w, s.measure())
}

func (s *server) measure() operator.Status {
	sum, used := s.host.Summary(), s.host.Meters().All()
	st := operator.Status{
		Process: s.options.Process(), Version: version.Text(), Uptime: time.Since(sum.Since), Grants: sum.Grants,
		OpenNodes: used.Used(meter.Nodes), Streams: used.Used(meter.Streams), Goroutines: runtime.NumGoroutine(),
	}
	m := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/sched/threads/total:threads"},
	}
	metrics.Read(m)
	st.HeapBytes = m[0].Value.Uint64()
	st.MemoryBytes = m[1].Value.Uint64() - m[2].Value.Uint64()
	st.Threads = int(m[3].Value.Uint64())
	return st
}

func setStatus(w schema.Status, s operator.Status) error {
	w.SetUptimeMs(uint64(s.Uptime.Milliseconds()))
	w.SetGrants(uint32(s.Grants))
	w.SetOpenNodes(uint64(s.OpenNodes))
	w.SetStreams(uint64(s.Streams))
	w.SetConnections(s.Connections)
	w.SetDescriptors(s.Descriptors)
	w.SetGoroutines(uint32(s.Goroutines))
	w.SetThreads(uint32(s.Threads))
	w.SetHeapBytes(s.HeapBytes)
	w.SetMemoryBytes(s.MemoryBytes)
	return w.SetVersion(s.Version)
}

func milliseconds(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }

// StatusOf reads the result of the method status.
func StatusOf(w schema.Status) (s operator.Status, err error) {
	s = operator.Status{
		Process:     operator.Process{Connections: w.Connections(), Descriptors: w.Descriptors()},
		Uptime:      milliseconds(w.UptimeMs()),
		Grants:      int(w.Grants()),
		OpenNodes:   int64(w.OpenNodes()),
		Streams:     int64(w.Streams()),
		Goroutines:  int(w.Goroutines()),
		Threads:     int(w.Threads()),
		HeapBytes:   w.HeapBytes(),
		MemoryBytes: w.MemoryBytes(),
	}
	s.Version, err = w.Version()
	return s, err
}

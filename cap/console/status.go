package console

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/version"
	"capd/vfs"
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
	st, err := s.measure()
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetStatus(w, st)
}

func (s *server) measure() (operator.Status, error) {
	sum, err := s.host.Summary()
	used := s.host.Meters().All()
	st := operator.Status{
		Process: s.options.Process(), Version: version.Text(), Uptime: time.Since(sum.Since), Grants: sum.Grants,
		OpenNodes: used.Used(meter.Nodes), Streams: used.Used(meter.Streams), Goroutines: runtime.NumGoroutine(),
		Unrecorded: s.options.Events == nil,
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
	return st, err
}

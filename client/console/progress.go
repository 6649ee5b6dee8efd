package console

import (
	"math"
	"sync"

	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// listen returns a capability to a Progress that calls f, or nil if f is nil. It calls
// f no more after stop has returned.
func listen(f operator.Progress) (told *vat.Cap, stop func()) {
	if f == nil {
		return nil, func() {}
	}
	l := &listener{f: f}
	return vat.Serve(listenerTable, l), l.stop
}

type listener struct {
	mu sync.Mutex
	f  operator.Progress // nil after stop
}

func (l *listener) stop() {
	l.mu.Lock()
	l.f = nil
	l.mu.Unlock()
}

var listenerTable = vat.NewTable(vat.Handle(schema.Progress_report, (*listener).report, vat.Serial()))

func (l *listener) report(c vat.Call[schema.Progress_report_Params, schema.Progress_report_Results]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f(int64(min(c.Params().Entries(), math.MaxInt64)), int64(min(c.Params().Bytes(), math.MaxInt64)))
	}
	return nil
}

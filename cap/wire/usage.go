package wire

import (
	"errors"
	"math"
	"time"

	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
)

// SetUsage writes u to a struct that it allocates with make.
func SetUsage(u operator.Usage, make func() (schema.Usage, error)) error {
	w, err := make()
	if err != nil {
		return err
	}
	return errors.Join(SetAll(u.Uses, w.NewHoldings, setUse), SetAll(u.Turns, w.NewLanes, setTurns))
}

func setUse(w schema.Usage_Holding, u meter.Use) error {
	w.SetKind(kindNamed(u.Kind))
	w.SetUsed(u.Used)
	w.SetLimit(u.Limit)
	w.SetShare(u.Share)
	w.SetRefused(uint64(u.Refused))
	w.SetPeak(u.Peak)
	return nil
}

func setTurns(w schema.Usage_Lane, t meter.Turns) error {
	w.SetKind(schema.Usage_Lane_Kind(t.Lane))
	w.SetGiven(uint64(t.Given))
	w.SetSpentMs(uint64(t.Spent.Milliseconds()))
	w.SetWaiting(uint32(t.Waiting))
	w.SetLongestMs(uint64(t.Longest.Milliseconds()))
	return nil
}

// Usage reads what SetUsage wrote. It skips kinds and lanes that this program does not
// know. Durations are in whole milliseconds.
func Usage(w schema.Usage, err error) (u operator.Usage, _ error) {
	if err != nil {
		return u, err
	}
	holdings, err := w.Holdings()
	if err != nil {
		return u, err
	}
	for i := range holdings.Len() {
		h := holdings.At(i)
		if k, known := meter.KindOf(h.Kind().String()); known {
			u.Uses = append(u.Uses, meter.Use{Kind: k, Used: h.Used(), Limit: h.Limit(), Share: h.Share(), Refused: int64(h.Refused()), Peak: h.Peak()})
		}
	}
	lanes, err := w.Lanes()
	if err != nil {
		return u, err
	}
	for i := range lanes.Len() {
		if l := lanes.At(i); l.Kind() <= schema.Usage_Lane_Kind_heavy {
			u.Turns = append(u.Turns, meter.Turns{
				Lane: meter.Lane(l.Kind()), Given: int64(l.Given()), Spent: milliseconds(l.SpentMs()),
				Waiting: int(l.Waiting()), Longest: milliseconds(l.LongestMs()),
			})
		}
	}
	return u, nil
}

// milliseconds reads a number of milliseconds. It cuts what is too long for a Duration.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// SetGrantUsage writes u.
func SetGrantUsage(w schema.GrantUsage, u operator.GrantUsage) error {
	g, err := w.NewGrant()
	if err != nil {
		return err
	}
	return errors.Join(SetGrant(g, u.Grant), SetUsage(u.Usage, w.NewUsage))
}

// GrantUsage reads what SetGrantUsage wrote.
func GrantUsage(w schema.GrantUsage) (u operator.GrantUsage, err error) {
	u.Grant = Keep[operator.Grant](&err)(One(Grant)(w.Grant()))
	u.Usage = Keep[operator.Usage](&err)(Usage(w.Usage()))
	return u, err
}

// SetStatus writes s. The uptime is cut to whole milliseconds.
func SetStatus(w schema.Status, s operator.Status) error {
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
	w.SetUnrecorded(s.Unrecorded)
	return w.SetVersion(s.Version)
}

// Status reads what SetStatus wrote.
func Status(w schema.Status) (s operator.Status, err error) {
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
		Unrecorded:  w.Unrecorded(),
	}
	s.Version, err = w.Version()
	return s, err
}

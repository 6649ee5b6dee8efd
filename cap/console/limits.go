package console

import (
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// kinds maps the meter's kinds of limits to those on the wire.
var kinds = [meter.Kinds]schema.Limit_Kind{
	meter.Connections: schema.Limit_Kind_connections, meter.Nodes: schema.Limit_Kind_nodes, meter.Streams: schema.Limit_Kind_streams,
	meter.Writers: schema.Limit_Kind_writers, meter.Listings: schema.Limit_Kind_listings, meter.Shares: schema.Limit_Kind_shares,
	meter.StoredBytes: schema.Limit_Kind_storedBytes, meter.StoredNodes: schema.Limit_Kind_storedNodes, meter.StagedBytes: schema.Limit_Kind_stagedBytes,
	meter.MessageBytes: schema.Limit_Kind_messageBytes, meter.CallBytes: schema.Limit_Kind_callBytes, meter.ReplyBytes: schema.Limit_Kind_replyBytes,
	meter.Threads: schema.Limit_Kind_threads, meter.Waits: schema.Limit_Kind_waits,
}

// kindOf returns the meter's kind for w, or false for a kind that it does not know.
func kindOf(w schema.Limit_Kind) (meter.Kind, bool) {
	for k, on := range kinds {
		if on == w {
			return meter.Kind(k), true
		}
	}
	return 0, false
}

// SetLimits writes l. limitsOf reads it.
func SetLimits(l meter.Limits, list func(int32) (schema.Limit_List, error)) error {
	if len(l) == 0 {
		return nil
	}
	w, err := list(int32(len(l)))
	if err != nil {
		return err
	}
	i := 0
	for k := range meter.Kinds {
		if most, there := l[k]; there {
			w.At(i).SetKind(kinds[k])
			w.At(i).SetMost(most)
			i++
		}
	}
	return nil
}

// limitsOf reads limits that a caller sent. It answers invalid for an unknown kind, for
// a kind that is there twice, and for a number that cannot be a limit.
func limitsOf(w schema.Limit_List, err error) (meter.Limits, error) {
	if err != nil {
		return nil, err
	}
	l := meter.Limits{}
	for i := range w.Len() {
		k, known := kindOf(w.At(i).Kind())
		most := w.At(i).Most()
		_, twice := l[k]
		switch {
		case !known:
			return nil, vfs.Errorf(vfs.Invalid, "this host knows no kind of limit with the number %d; leave it out", w.At(i).Kind())
		case twice:
			return nil, vfs.Errorf(vfs.Invalid, "the limit of %s is there twice; give one", k)
		case most < 1 && most != meter.NoLimit:
			return nil, vfs.Errorf(vfs.Invalid, "the limit of %s is %d; give a number from 1, or -1 for no limit", k, most)
		}
		l[k] = most
	}
	return l, nil
}

func (s *server) setLimits(c vat.Call[schema.Console_setLimits_Params, schema.Console_setLimits_Results]) error {
	guest, err := wire.Text(c.Params().Guest())
	if err != nil {
		return err
	}
	l, err := limitsOf(wire.Sound[schema.Limit_List](c.Params().HasLimits())(c.Params().Limits()))
	if err == nil && len(l) == 0 {
		err = vfs.Errorf(vfs.Invalid, "there is no limit to set; give at least one")
	}
	if err != nil {
		return vfs.At(guest, err)
	}
	n, err := s.host.SetLimits(guest, l)
	c.Results().SetCount(uint32(n))
	return vfs.At(guest, err)
}

// maxUsages is the largest number of grants in a page of usage, so that it fits into a
// message.
const maxUsages = 1000

func (s *server) usage(c vat.Call[schema.Console_usage_Params, schema.Console_usage_Results]) error {
	after, err := wire.Text(c.Params().After())
	if err != nil {
		return err
	}
	gs, more, err := pageOf(s.host.Metered, after, min(wire.PageSize(c.Params().Limit()), maxUsages))
	if err != nil {
		return err
	}
	r := c.Results()
	r.SetMore(more)
	l, err := r.NewGrants(int32(len(gs)))
	if err != nil {
		return err
	}
	for i, g := range gs {
		w, err := l.At(i).NewGrant()
		if err != nil {
			return err
		}
		if err := errors.Join(SetGrant(w, g.Grant), setUsage(g.Meter, l.At(i).NewUsage)); err != nil {
			return err
		}
	}
	meters := s.host.Meters()
	return errors.Join(setUsage(meters.All(), r.NewHost), setUsage(meters.Strangers(), r.NewStrangers))
}

// setUsage writes what m counts. UsageFrom reads it.
func setUsage(m *meter.Meter, make func() (schema.Usage, error)) error {
	u := operator.UsageOf(m)
	w, err := make()
	if err != nil {
		return err
	}
	holdings, err := w.NewHoldings(int32(len(u.Uses)))
	if err != nil {
		return err
	}
	for i, use := range u.Uses {
		h := holdings.At(i)
		h.SetKind(kinds[use.Kind])
		h.SetUsed(use.Used)
		h.SetLimit(use.Limit)
		h.SetShare(use.Share)
		h.SetRefused(uint64(use.Refused))
		h.SetPeak(use.Peak)
	}
	lanes, err := w.NewLanes(int32(len(u.Turns)))
	if err != nil {
		return err
	}
	for i, t := range u.Turns {
		l := lanes.At(i)
		l.SetKind(schema.Usage_Lane_Kind(t.Lane))
		l.SetGiven(uint64(t.Given))
		l.SetSpentMs(uint64(t.Spent.Milliseconds()))
		l.SetWaiting(uint32(t.Waiting))
		l.SetLongestMs(uint64(t.Longest.Milliseconds()))
	}
	return nil
}

// UsageFrom reads a result of the method usage. It skips kinds that this program does
// not know.
func UsageFrom(w schema.Usage, err error) (u operator.Usage, _ error) {
	if err != nil {
		return u, err
	}
	holdings, err := w.Holdings()
	if err != nil {
		return u, err
	}
	for i := range holdings.Len() {
		h := holdings.At(i)
		if k, known := kindOf(h.Kind()); known {
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

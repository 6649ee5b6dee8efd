package console

import (
	"context"
	"math"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// byOperator is who decides over a console.
const byOperator = "the operator"

// approvals returns what the methods about approvals use.
func (s *server) approvals() (operator.Approvals, error) {
	if s.options.Approvals == nil {
		return nil, vfs.At("", vfs.Errorf(vfs.Unsupported, "this host has no approvals"))
	}
	return s.options.Approvals, nil
}

func (s *server) asks(c vat.Call[schema.Console_asks_Params, schema.Console_asks_Results]) error {
	a, err := s.approvals()
	id := wire.Keep[string](&err)(wire.Param(c.Params().AfterId()))
	if err != nil {
		return err
	}
	all, err := a.List(c.Context(), c.Params().All(), operator.Ask{ID: id, Asked: time.UnixMilli(c.Params().AfterMs())})
	if err != nil {
		return vfs.At(id, err)
	}
	return wire.SetAll(all, c.Results().NewAsks, wire.SetAsk)
}

func (s *server) showAsk(c vat.Call[schema.Console_showAsk_Params, schema.Console_showAsk_Results]) error {
	a, err := s.approvals()
	id := wire.Keep[string](&err)(wire.Param(c.Params().Id()))
	if err != nil {
		return err
	}
	shown, err := a.Show(c.Context(), id)
	if err != nil {
		return vfs.At(id, err)
	}
	w, err := c.Results().NewAsk()
	if err != nil {
		return err
	}
	return wire.SetAsk(w, shown)
}

func (s *server) decide(c vat.Call[schema.Console_decide_Params, schema.Console_decide_Results]) error {
	a, err := s.approvals()
	text := wire.Keep[string](&err)
	p := c.Params()
	id := text(wire.Param(p.Id()))
	v := operator.Verdict{Answer: wire.AnswerOf(p.Answer()), Reason: text(wire.Param(p.Reason())), Pattern: text(wire.Path(p.PatternBytes()))}
	if err != nil {
		return err
	}
	if p.HasRights() {
		if v.Rights, err = wire.Rights(wire.Sound[schema.Right_List](true)(p.Rights())); err == nil && v.Rights == 0 {
			err = vfs.Errorf(vfs.Invalid, "rights names none that this host knows; leave it out for all that were asked for")
		}
		if err != nil {
			return vfs.At(id, err)
		}
	}
	if p.ForMs() > uint64(math.MaxInt64/time.Millisecond) {
		return vfs.At(id, vfs.Errorf(vfs.Invalid, "an approval does not hold for that long"))
	}
	v.For = time.Duration(p.ForMs()) * time.Millisecond
	whole, err := a.Decide(id, v, byOperator)
	if err != nil {
		return vfs.At(id, err)
	}
	return c.Results().SetId(whole)
}

func (s *server) standing(c vat.Call[schema.Console_approvals_Params, schema.Console_approvals_Results]) error {
	a, err := s.approvals()
	if err != nil {
		return err
	}
	all, err := a.Standing(c.Context())
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetAll(all, c.Results().NewApprovals, wire.SetApproval)
}

func (s *server) endApproval(c vat.Call[schema.Console_endApproval_Params, schema.Console_endApproval_Results]) error {
	a, err := s.approvals()
	if err != nil {
		return err
	}
	return vfs.At("", a.End(c.Params().Number()))
}

// maxWait is how long events waits for an event.
const maxWait = 60 * time.Second

func (s *server) events(c vat.Call[schema.Console_events_Params, schema.Console_events_Results]) error {
	if s.options.Events == nil {
		return errNoRecord
	}
	if a := s.options.Approvals; a != nil {
		defer a.Listen()()
	}
	p := c.Params()
	ctx, cancel := context.WithTimeout(c.Context(), min(maxWait, time.Duration(p.WaitMs())*time.Millisecond))
	defer cancel()
	var all []operator.Event
	var next, missed uint64
	var err error
	late := meter.Wait(ctx, func() { all, next, missed, err = s.options.Events.Events(ctx, p.After(), wire.PageSize(p.Limit())) })
	if err == nil && c.Context().Err() != nil {
		err = late
	}
	if err != nil {
		return vfs.At("", err)
	}
	all, next = fitting(all, next)
	r := c.Results()
	r.SetNext(next)
	r.SetMissed(missed)
	return wire.SetAll(all, r.NewEvents, wire.SetEvent)
}

// maxEntries is how many bytes of entries a page has, unless the first is longer.
const maxEntries = 2 << 20

// fitting returns as many of all as fit into a message, and the number to continue with.
func fitting(all []operator.Event, next uint64) ([]operator.Event, uint64) {
	bytes := 0
	for i, e := range all {
		if bytes += len(e.Entry); bytes > maxEntries && i > 0 {
			return all[:i], e.Number
		}
	}
	return all, next
}

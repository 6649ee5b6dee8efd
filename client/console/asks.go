package console

import (
	"context"
	"errors"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Asks returns the changes that wait for an approval, or with all those decided in the last 30 days, too, the oldest first.
// They have no Diff.
func (c *Console) Asks(ctx context.Context, all bool) ([]operator.Ask, error) {
	list, last := []operator.Ask{}, operator.Ask{}
	for {
		page, err := wire.Ask(ctx, c.cap, schema.Console_asks, func(p schema.Console_asks_Params, _ *vat.Caps) error {
			p.SetAll(all)
			if last.ID != "" {
				p.SetAfterMs(last.Asked.UnixMilli())
			}
			return p.SetAfterId(last.ID)
		}, func(r schema.Console_asks_Results, _ *vat.Caps) ([]operator.Ask, error) {
			return wire.All(wire.AskOf)(r.Asks())
		})
		if err != nil || len(page) == 0 {
			return list, err
		}
		list, last = append(list, page...), page[len(page)-1]
	}
}

// Ask returns the request for an approval with that id, or the only one whose id begins so.
func (c *Console) Ask(ctx context.Context, id string) (operator.Ask, error) {
	return wire.Ask(ctx, c.cap, schema.Console_showAsk, func(p schema.Console_showAsk_Params, _ *vat.Caps) error { return p.SetId(id) },
		func(r schema.Console_showAsk_Results, _ *vat.Caps) (operator.Ask, error) {
			return wire.One(wire.AskOf)(r.Ask())
		})
}

// Decide decides about the request with that id, or the only one whose id begins so, and returns its id. It answers conflict if
// somebody was faster.
func (c *Console) Decide(ctx context.Context, id string, v operator.Verdict) (string, error) {
	if err := v.Check(); err != nil {
		return "", err
	}
	return wire.Ask(ctx, c.cap, schema.Console_decide, func(p schema.Console_decide_Params, _ *vat.Caps) error {
		p.SetAnswer(wire.Answer(v.Answer))
		p.SetForMs(uint64(v.For.Milliseconds()))
		if v.Rights != 0 {
			if err := wire.SetRights(v.Rights, p.NewRights); err != nil {
				return err
			}
		}
		return errors.Join(p.SetId(id), p.SetReason(v.Reason), p.SetPattern(v.Pattern))
	}, func(r schema.Console_decide_Results, _ *vat.Caps) (string, error) { return r.Id() })
}

// Approvals returns what was approved with always and still holds.
func (c *Console) Approvals(ctx context.Context) ([]operator.Standing, error) {
	return wire.Ask(ctx, c.cap, schema.Console_approvals, nil,
		func(r schema.Console_approvals_Results, _ *vat.Caps) ([]operator.Standing, error) {
			return wire.All(wire.Approval)(r.Approvals())
		})
}

// EndApproval ends one of Approvals.
func (c *Console) EndApproval(ctx context.Context, number int64) error {
	return wire.Do(ctx, c.cap, schema.Console_endApproval, func(p schema.Console_endApproval_Params, _ *vat.Caps) error {
		p.SetNumber(number)
		return nil
	}, nil)
}

// Events returns entries of the host's record from number after on. If there are none it waits for one, at most that long, and at most a
// minute. next is the number to continue with, and missed how many entries the record no longer has. With after
// beyond the end it returns none, and next is the end. While somebody calls Events, changes that need an approval wait for it.
func (c *Console) Events(ctx context.Context, after uint64, wait time.Duration) (all []operator.Event, next, missed uint64, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_events, func(p schema.Console_events_Params, _ *vat.Caps) error {
		p.SetAfter(after)
		p.SetWaitMs(uint32(min(wait, time.Minute).Milliseconds()))
		return nil
	}, func(r schema.Console_events_Results, _ *vat.Caps) (err error) {
		next, missed = r.Next(), r.Missed()
		all, err = wire.All(wire.Event)(r.Events())
		return err
	})
	return all, next, missed, err
}

package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Usage is what guests use at one moment.
type Usage struct {
	Host      operator.Usage        // all of them together
	Strangers operator.Usage        // connections that have restored nothing yet
	Grants    []operator.GrantUsage // oldest first, without those that hold nothing any more
}

// Usage returns what guests use now. It asks several times if there are many grants.
func (c *Console) Usage(ctx context.Context) (u Usage, err error) {
	for more, after := true, ""; more; {
		err := wire.Do(ctx, c.cap, schema.Console_usage, func(p schema.Console_usage_Params, _ *vat.Caps) error {
			return p.SetAfter(after)
		}, func(r schema.Console_usage_Results, _ *vat.Caps) error {
			page, err := usageOf(r)
			if err != nil {
				return err
			}
			u = Usage{page.Host, page.Strangers, append(u.Grants, page.Grants...)}
			if more = r.More() && len(page.Grants) > 0; more {
				after = page.Grants[len(page.Grants)-1].ID
			}
			return nil
		})
		if err != nil {
			return Usage{}, err
		}
	}
	return u, nil
}

// usageOf reads one page.
func usageOf(r schema.Console_usage_Results) (u Usage, err error) {
	if u.Host, err = wire.Usage(r.Host()); err != nil {
		return u, err
	}
	if u.Strangers, err = wire.Usage(r.Strangers()); err != nil {
		return u, err
	}
	u.Grants, err = wire.All(wire.GrantUsage)(r.Grants())
	return u, err
}

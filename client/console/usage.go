package console

import (
	"context"

	served "capd/cap/console"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Usage is what guests use at one moment.
type Usage struct {
	Host      operator.Usage // all of them together
	Strangers operator.Usage // connections that have restored nothing yet
	Grants    []GrantUsage   // oldest first, without those that hold nothing any more
}

// GrantUsage is what one grant uses, together with all that was shared from it.
type GrantUsage struct {
	operator.Grant
	operator.Usage
}

// Usage returns what guests use now. It asks several times if there are many grants.
func (c *Console) Usage(ctx context.Context) (u Usage, err error) {
	for more, after := true, ""; more; {
		err := vat.Do(ctx, c.cap, schema.Console_usage, func(p schema.Console_usage_Params, _ *vat.Caps) error {
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
			return Usage{}, wire.Decode(err)
		}
	}
	return u, nil
}

// usageOf reads one page.
func usageOf(r schema.Console_usage_Results) (u Usage, err error) {
	if u.Host, err = served.UsageFrom(r.Host()); err != nil {
		return u, err
	}
	if u.Strangers, err = served.UsageFrom(r.Strangers()); err != nil {
		return u, err
	}
	l, err := r.Grants()
	if err != nil {
		return u, err
	}
	for i := range l.Len() {
		w, err := l.At(i).Grant()
		if err != nil {
			return u, err
		}
		g := GrantUsage{}
		if g.Grant, err = served.Grant(w); err != nil {
			return u, err
		}
		if g.Usage, err = served.UsageFrom(l.At(i).Usage()); err != nil {
			return u, err
		}
		u.Grants = append(u.Grants, g)
	}
	return u, nil
}

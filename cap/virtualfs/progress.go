package virtualfs

import (
	"context"

	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// report returns a function that tells progress to to, a Progress of the caller's. It
// tells until stop is called, ctx ends, or a call of to fails. The function never
// blocks: a new report replaces one that was not sent yet. It is nil if to is nil.
func report(ctx context.Context, to *vat.Cap) (progress operator.Progress, stop func()) {
	if to == nil {
		return nil, func() {}
	}
	type done struct{ entries, bytes int64 }
	newest := make(chan done, 1)
	ctx, stop = context.WithCancel(ctx)
	to = to.AddRef()
	go func() {
		defer to.Release()
		for {
			select {
			case <-ctx.Done():
				return
			case d := <-newest:
				if ctx.Err() != nil {
					return
				}
				err := vat.Do(ctx, to, schema.Progress_report, func(p schema.Progress_report_Params, _ *vat.Caps) error {
					p.SetEntries(uint64(d.entries))
					p.SetBytes(uint64(d.bytes))
					return nil
				}, nil)
				if err != nil {
					return
				}
			}
		}
	}()
	return func(entries, bytes int64) {
		for {
			select {
			case newest <- done{entries, bytes}:
				return
			default:
			}
			select {
			case <-newest:
			default:
			}
		}
	}, stop
}

package console_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// long calls every method that takes a Progress and may take long.
var long = map[string]func(context.Context, *vat.Cap, *vat.Cap) error{
	"apply": func(ctx context.Context, fs, progress *vat.Cap) error {
		return vat.Do(ctx, fs, schema.VirtualFs_apply, func(p schema.VirtualFs_apply_Params, caps *vat.Caps) error {
			return p.SetProgress(caps.Put(progress))
		}, nil)
	},
	"snapshot": func(ctx context.Context, fs, progress *vat.Cap) error {
		return vat.Do(ctx, fs, schema.VirtualFs_snapshot, func(p schema.VirtualFs_snapshot_Params, caps *vat.Caps) error {
			return p.SetProgress(caps.Put(progress))
		}, nil)
	},
	"materialize": func(ctx context.Context, fs, progress *vat.Cap) error {
		return vat.Do(ctx, fs, schema.VirtualFs_materialize, func(p schema.VirtualFs_materialize_Params, caps *vat.Caps) error {
			return p.SetProgress(caps.Put(progress))
		}, nil)
	},
	"sync": func(ctx context.Context, fs, progress *vat.Cap) error {
		var tree *vat.Cap
		err := vat.Do(context.WithoutCancel(ctx), fs, schema.VirtualFs_materialize, nil, func(r schema.VirtualFs_materialize_Results, caps *vat.Caps) error {
			tree = caps.Get(r.Tree()).AddRef()
			return nil
		})
		if err != nil {
			progress.Release()
			return err
		}
		defer tree.Release()
		return vat.Do(ctx, tree, schema.Materialized_sync, func(p schema.Materialized_sync_Params, caps *vat.Caps) error {
			return p.SetProgress(caps.Put(progress))
		}, nil)
	},
}

// gauge is the test's Progress.
type gauge struct {
	report   func(entries, bytes uint64) error
	released chan struct{} // if any, closed when nobody has it any more
}

func (m *gauge) Release() {
	if m.released != nil {
		close(m.released)
	}
}

var gaugeTable = vat.NewTable(vat.Handle(schema.Progress_report, func(m *gauge, c vat.Call[schema.Progress_report_Params, schema.Progress_report_Results]) error {
	return m.report(c.Params().Entries(), c.Params().Bytes())
}))

// await waits for c, in work that a test does.
func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Progress that never answers gets one report, and the work goes on.
func TestProgressThatNeverAnswers(t *testing.T) {
	for name, call := range long {
		t.Run(name, func(t *testing.T) {
			never, released := make(chan struct{}), make(chan struct{})
			var reports atomic.Int64
			reported := make(chan struct{}, 1)
			h := example()
			fs := raw(t, h)
			defer fs.Release()
			h.work = func(ctx context.Context, p operator.Progress) error {
				if p == nil { // the copy that is synced
					return nil
				}
				p(1, 1)
				if err := await(ctx, reported); err != nil {
					return err
				}
				for i := range int64(100_000) {
					p(i, i)
				}
				return nil
			}
			ok(t, call(t.Context(), fs, vat.Serve(gaugeTable, &gauge{released: released, report: func(_, _ uint64) error {
				reports.Add(1)
				reported <- struct{}{}
				<-never
				return nil
			}})))
			if n := reports.Load(); n != 1 {
				t.Errorf("%d reports were sent to one that answers none", n)
			}
			close(never)
			soon(t, "the host lets go of it", released)
		})
	}
}

// A Progress that fails gets no more reports, and the work goes on.
func TestProgressThatFails(t *testing.T) {
	for name, call := range long {
		t.Run(name, func(t *testing.T) {
			var reports atomic.Int64
			reported := make(chan struct{}, 1)
			h := example()
			fs := raw(t, h)
			defer fs.Release()
			h.work = func(ctx context.Context, p operator.Progress) error {
				if p == nil {
					return nil
				}
				p(1, 1)
				if err := await(ctx, reported); err != nil {
					return err
				}
				for i := range int64(10_000) {
					p(i, i)
				}
				return nil
			}
			ok(t, call(t.Context(), fs, vat.Serve(gaugeTable, &gauge{report: func(_, _ uint64) error {
				reports.Add(1)
				reported <- struct{}{}
				return io.ErrUnexpectedEOF
			}})))
			same(t, "reports to one that failed", reports.Load(), int64(1))
			close(reported)
			ok(t, call(t.Context(), fs, vat.Broken(io.ErrUnexpectedEOF))) // which cannot be reported to at all
		})
	}
}

// While a report is not answered, only the newest of the following reports is kept.
func TestProgressSkipsToTheNewest(t *testing.T) {
	first, answer, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := example()
	fs := virtualFs(t, h)
	h.work = func(ctx context.Context, p operator.Progress) error {
		p(1, 10)
		if err := await(ctx, first); err != nil {
			return err
		}
		for i := range int64(1000) {
			p(2+i, 0)
		}
		close(answer)
		return await(ctx, second)
	}
	n := 0
	_, err := fs.Apply(t.Context(), "p", operator.ApplyOptions{}, func(entries, bytes int64) {
		if n++; n == 1 {
			same(t, "entries and bytes", [2]int64{entries, bytes}, [2]int64{1, 10})
			first <- struct{}{}
			<-answer
			return
		}
		same(t, "entries of the second report", entries, int64(1001))
		close(second)
	})
	ok(t, err)
	same(t, "reports", n, 2)
}

// A caller gets no report after the call has returned.
func TestProgressEndsWithTheCall(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	h.work = func(_ context.Context, p operator.Progress) error {
		for i := range int64(100) {
			p(i, i)
		}
		return nil
	}
	for range 50 {
		var over atomic.Bool
		_, err := fs.Apply(t.Context(), "p", operator.ApplyOptions{}, func(int64, int64) {
			if over.Load() {
				t.Error("told after the end")
			}
		})
		over.Store(true)
		ok(t, err)
	}
}

// A long call ends with its caller's context, and delays nobody meanwhile.
func TestCancellation(t *testing.T) {
	calls := map[string]func(context.Context, *vat.Cap, *vat.Cap) error{
		"diff": func(ctx context.Context, fs, _ *vat.Cap) error {
			return vat.Do(ctx, fs, schema.VirtualFs_diff, nil, nil)
		},
	}
	for name, call := range long {
		calls[name] = call
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			h := example()
			h.closed = make(chan struct{}, 100)
			fs := raw(t, h)
			defer fs.Release()
			begun, ended := make(chan struct{}, 100), make(chan error, 100)
			h.work = func(ctx context.Context, p operator.Progress) error {
				if name == "sync" && p == nil { // the copy that is synced
					return nil
				}
				begun <- struct{}{}
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			const n = 10
			for range n {
				all.Go(func() {
					if err := call(ctx, fs, vat.Serve(gaugeTable, &gauge{report: func(_, _ uint64) error { return nil }})); err == nil {
						t.Error("a call that was cancelled succeeded")
					}
				})
			}
			for range n {
				soon(t, "the work has begun", begun)
			}
			ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_help, nil, nil)) // beside them
			cancel()
			for range n {
				if err := soon(t, "the work has ended", ended); err != context.Canceled {
					t.Errorf("the work ended with %v", err)
				}
			}
			all.Wait()
		})
	}
}

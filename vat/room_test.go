package vat_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// Many large results at once do not pile up, and end no connection whose peer reads.
func TestLargeResultsWaitForRoom(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	const size = 3 << 20
	var peak atomic.Int64
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			peak.Store(max(peak.Load(), p.server.Stats().ParkedBytes))
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			err := vat.Do(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(size); return nil },
				func(r tp.Echo_data_Results, _ *vat.Caps) error {
					b, err := r.Data()
					assert.Len(t, b, size)
					return err
				})
			assert.NoError(t, err)
		})
	}
	calls.Wait()
	close(done)
	watch.Wait()
	assert.LessOrEqual(t, peak.Load(), int64(2*size))
}

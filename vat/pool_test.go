package vat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A queue that is never empty takes no more memory than what waits in it at once.
func TestPoolThatNeverRests(t *testing.T) {
	p := &pool{} // nobody works but the test
	var all []*request
	submit := func() {
		all = append(all, new(request))
		p.submit(all[len(all)-1])
	}
	for range 10 {
		submit()
	}
	for i := range 100_000 {
		submit()
		require.Same(t, all[i], p.next())
	}
	require.LessOrEqual(t, cap(p.queue), 64)
}

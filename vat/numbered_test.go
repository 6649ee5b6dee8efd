package vat

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table of numbers behaves like a map, for any numbers.
func TestNumbered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table numbered[int]
	want := map[uint32]*int{}
	for i := range 20_000 {
		id := []uint32{uint32(r.IntN(8)), uint32(r.IntN(lowNumbers + 8)), ^uint32(0) - uint32(r.IntN(4))}[r.IntN(3)]
		require.Same(t, want[id], table.get(id), "%d", id)
		if r.IntN(2) == 0 {
			table.remove(id)
			delete(want, id)
		} else if want[id] == nil {
			want[id] = &i
			table.put(id, &i)
		}
		require.Equal(t, len(want), table.len())
	}
	require.ElementsMatch(t, slices.Collect(maps.Values(want)), slices.Collect(table.all()))
	require.LessOrEqual(t, len(table.low), lowNumbers)
	for range table.all() {
		break
	}
	table = numbered[int]{}
	require.Nil(t, table.get(0))
	require.Empty(t, slices.Collect(table.all()))
}

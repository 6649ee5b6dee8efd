package vat

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A table of numbers behaves like a map, for any numbers.
func TestNumbered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table numbered[int]
	want := map[uint32]*int{}
	for i := range 20_000 {
		id := []uint32{uint32(r.IntN(8)), uint32(r.IntN(lowNumbers + 8)), ^uint32(0) - uint32(r.IntN(4))}[r.IntN(3)]
		if got := table.get(id); got != want[id] {
			t.Fatalf("table.get(%d) = %p, want %p", id, got, want[id])
		}
		if r.IntN(2) == 0 {
			table.remove(id)
			delete(want, id)
		} else if want[id] == nil {
			want[id] = &i
			table.put(id, &i)
		}
		if got, want := table.len(), len(want); got != want {
			t.Fatalf("table.len() = %d, want %d", got, want)
		}
	}
	all := map[*int]int{}
	for p := range table.all() {
		all[p]++
	}
	for id, p := range want {
		if all[p] != 1 {
			t.Fatalf("table.all() has the value of %d %d times, want once", id, all[p])
		}
	}
	if len(all) != len(want) {
		t.Fatalf("table.all() has %d values, want %d", len(all), len(want))
	}
	if got := len(table.low); got > lowNumbers {
		t.Fatalf("len(table.low) = %d, want at most %d", got, lowNumbers)
	}
	for range table.all() {
		break
	}
	table = numbered[int]{}
	if got := table.get(0); got != nil {
		t.Fatalf("table.get(0) = %v, want nil", got)
	}
	if got := slices.Collect(table.all()); len(got) != 0 {
		t.Fatalf("slices.Collect(table.all()) = %v, want nothing", got)
	}
}

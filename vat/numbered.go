package vat

import "iter"

// A numbered is one of a connection's tables: entries by number. Most numbers are small, since both sides
// reuse free ones, and those index a list. Larger numbers, which a peer may choose, are in a map. The zero
// value is empty.
type numbered[T any] struct {
	low  []*T // by number
	high map[uint32]*T
	n    int
}

// lowNumbers is how many numbers index the list.
const lowNumbers = 1 << 10

func (t *numbered[T]) len() int { return t.n }

// get returns the entry of that number, or nil.
func (t *numbered[T]) get(id uint32) *T {
	if uint64(id) < uint64(len(t.low)) {
		return t.low[id]
	}
	return t.high[id]
}

// put adds an entry under a number that has none.
func (t *numbered[T]) put(id uint32, e *T) {
	t.n++
	switch {
	case id >= lowNumbers:
		if t.high == nil {
			t.high = make(map[uint32]*T)
		}
		t.high[id] = e
	case int(id) < len(t.low):
		t.low[id] = e
	default:
		t.low = append(t.low, make([]*T, int(id)-len(t.low))...)
		t.low = append(t.low, e)
	}
}

// remove removes the entry of that number, if there is one.
func (t *numbered[T]) remove(id uint32) {
	if t.get(id) == nil {
		return
	}
	t.n--
	if id < lowNumbers {
		t.low[id] = nil
	} else {
		delete(t.high, id)
	}
}

// all yields the entries, in no order.
func (t *numbered[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, e := range t.low {
			if e != nil && !yield(e) {
				return
			}
		}
		for _, e := range t.high {
			if !yield(e) {
				return
			}
		}
	}
}

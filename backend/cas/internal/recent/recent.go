// Package recent keeps values that were used lately, up to a bound.
package recent

import "sync"

// Cache keeps values by key. Each has a weight; what was used least lately goes
// first, in two generations, so that it holds at least half and at most the whole
// of the bound. Its methods may be called from several goroutines at once.
type Cache[K comparable, V any] struct {
	max     int64
	dropped func(V)

	mu     sync.Mutex
	young  map[K]entry[V]
	old    map[K]entry[V]
	weight int64 // of young
}

type entry[V any] struct {
	value  V
	weight int64
}

// New returns an empty cache for values of max weight together. dropped, if any, is
// called once for every value that leaves it, under the cache's lock.
func New[K comparable, V any](max int64, dropped func(V)) *Cache[K, V] {
	if dropped == nil {
		dropped = func(V) {}
	}
	return &Cache[K, V]{max: max, dropped: dropped, young: map[K]entry[V]{}}
}

// Get returns the value at k after calling use on it, if any, under the cache's lock.
func (c *Cache[K, V]) Get(k K, use func(V)) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.young[k]
	if !ok {
		if e, ok = c.old[k]; !ok {
			return v, false
		}
		delete(c.old, k)
		c.put(k, e)
	}
	if use != nil {
		use(e.value)
	}
	return e.value, true
}

// Add keeps v at k, in place of what was there. A value of more than half the bound
// is dropped at once.
func (c *Cache[K, V]) Add(k K, v V, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(k)
	if weight > c.max/2 {
		c.dropped(v)
		return
	}
	c.put(k, entry[V]{v, weight})
}

// Clear drops every value.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range []map[K]entry[V]{c.young, c.old} {
		for _, e := range generation {
			c.dropped(e.value)
		}
	}
	c.young, c.old, c.weight = map[K]entry[V]{}, nil, 0
}

// put begins a new generation where the young one would come to more than half.
func (c *Cache[K, V]) put(k K, e entry[V]) {
	if c.weight+e.weight > c.max/2 {
		for _, gone := range c.old {
			c.dropped(gone.value)
		}
		c.old, c.young, c.weight = c.young, map[K]entry[V]{}, 0
	}
	c.young[k] = e
	c.weight += e.weight
}

func (c *Cache[K, V]) remove(k K) {
	if e, ok := c.young[k]; ok {
		c.weight -= e.weight
		delete(c.young, k)
		c.dropped(e.value)
	}
	if e, ok := c.old[k]; ok {
		delete(c.old, k)
		c.dropped(e.value)
	}
}

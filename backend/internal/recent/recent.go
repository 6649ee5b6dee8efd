// Package recent has a cache of recently used values.
package recent

import "sync"

// Cache keeps values by key, up to a total weight. It drops the least recently used
// first, in two generations. So it keeps at least half of the maximum, if there is as
// much. Its methods may be called from several goroutines at once.
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

// New returns an empty cache with the maximum weight max. dropped, if not nil, is
// called once for every value that is dropped, under the cache's lock.
func New[K comparable, V any](max int64, dropped func(V)) *Cache[K, V] {
	if dropped == nil {
		dropped = func(V) {}
	}
	return &Cache[K, V]{max: max, dropped: dropped, young: map[K]entry[V]{}}
}

// Get returns the value at k. It first calls use, if not nil, with the value, under the
// cache's lock.
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

// Add stores v at k and replaces the present value. A value that weighs more than half
// the maximum is dropped at once.
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

// put adds a value. It begins a new generation if the young one would exceed half of
// the maximum.
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

package git

import (
	"container/list"
	"sync"
)

// lru caches the values used last, up to a total weight. Safe for concurrent use.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	whole int64   // maximum total weight
	room  int64   // weight still free
	gone  func(V) // may be nil; called under mu with each dropped value
	order list.List
	found map[K]*list.Element
}

type lruItem[K comparable, V any] struct {
	key    K
	value  V
	weight int64
}

func newLRU[K comparable, V any](room int64, gone func(V)) *lru[K, V] {
	return &lru[K, V]{whole: room, room: room, gone: gone, found: map[K]*list.Element{}}
}

// get returns the value of key. use, if not nil, runs under the cache's lock, before
// the value can be dropped.
func (c *lru[K, V]) get(key K, use func(V)) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.found[key]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	v = e.Value.(*lruItem[K, V]).value
	if use != nil {
		use(v)
	}
	return v, true
}

// put stores v in place of the present value. It does not keep a value that weighs more
// than a quarter of the whole.
func (c *lru[K, V]) put(key K, v V, weight int64) (kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if weight > c.whole/4 {
		return false
	}
	if e := c.found[key]; e != nil {
		c.drop(e)
	}
	c.found[key] = c.order.PushFront(&lruItem[K, V]{key, v, weight})
	for c.room -= weight; c.room < 0; {
		c.drop(c.order.Back())
	}
	return true
}

func (c *lru[K, V]) drop(e *list.Element) {
	item := c.order.Remove(e).(*lruItem[K, V])
	delete(c.found, item.key)
	c.room += item.weight
	if c.gone != nil {
		c.gone(item.value)
	}
}

// clear drops everything.
func (c *lru[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

package git

import (
	"container/list"
	"sync"
)

// lru keeps what was used last, up to a sum of weights. Safe for concurrent use.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	whole int64   // the most that is kept
	room  int64   // what is left of it
	gone  func(V) // if any, told of what is dropped; runs under mu
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

// get returns what is kept under key. use, if any, runs under the cache's lock, before
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

// put keeps v in place of what was there. What weighs more than a quarter of the
// room is not kept.
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

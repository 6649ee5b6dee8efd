package feed

import (
	"strings"

	"github.com/tidwall/btree"
)

// waiter is a call that waits for something to happen in the directory at path.
type waiter struct {
	path string
	ch   chan struct{}
}

func (w *waiter) wake() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
}

// waiters are all that wait, by path. A change wakes those whom it may concern without a look at the others, of whom there may be tens of thousands.
type waiters struct {
	byPath btree.Map[string, map[*waiter]struct{}]
}

func (ws *waiters) add(w *waiter) {
	at, ok := ws.byPath.Get(w.path)
	if !ok {
		at = map[*waiter]struct{}{}
		ws.byPath.Set(w.path, at)
	}
	at[w] = struct{}{}
}

func (ws *waiters) remove(w *waiter) {
	at, _ := ws.byPath.Get(w.path)
	if delete(at, w); len(at) == 0 {
		ws.byPath.Delete(w.path)
	}
}

// wake wakes those who wait at path and above, and if below is set those below it.
func (ws *waiters) wake(path string, below bool) {
	if ws.byPath.Len() == 0 {
		return
	}
	for up := path; ; up = up[:max(0, strings.LastIndexByte(up, '/'))] {
		at, _ := ws.byPath.Get(up)
		wakeAll(at)
		if up == "" {
			break
		}
	}
	if !below {
		return
	}
	prefix := path + "/"
	if path == "" {
		prefix = ""
	}
	ws.byPath.Ascend(prefix, func(at string, all map[*waiter]struct{}) bool {
		if !strings.HasPrefix(at, prefix) {
			return false
		}
		wakeAll(all)
		return true
	})
}

func wakeAll(all map[*waiter]struct{}) {
	for w := range all {
		w.wake()
	}
}

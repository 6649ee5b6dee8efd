package feed

import (
	"strings"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
)

// recent is what happened lately. A store that watches tells again of what is changed through the tree, and that is not to be told twice.
// Feed.mu guards it.
type recent struct {
	own   map[string]made      // what was changed through the tree, by path
	names map[string]time.Time // when something was made, moved or removed at a path, by whomever
	swept time.Time

	under map[string]int // changes through the tree that are being made, by path
	held  []held         // what is told of such a path waits until it is known whose that was
}

// held is a notice that waits, and for whom.
type held struct {
	in *interest
	n  vfs.Notice
}

// making notes that a change is being made, or with -1 that it is over.
func (r *recent) making(op membrane.Op, by int) {
	if r.under == nil {
		r.under = map[string]int{}
	}
	for _, path := range []string{op.Path, op.To} {
		if path == "" {
			continue
		}
		if r.under[path] += by; r.under[path] == 0 {
			delete(r.under, path)
		}
	}
}

// remade reports whether something was made at path through the tree lately. A store that tells that nothing is there may have looked before that, so
// whoever is told has to look.
func (r *recent) remade(path string) bool {
	m, ok := r.own[path]
	return ok && m.kind != vfs.Removed
}

// waits reports whether n waits.
func (r *recent) waits(n vfs.Notice) bool {
	return r.under[n.Path] > 0 || n.Event == vfs.Moved && r.under[n.From] > 0
}

// made is what was changed through the tree.
type made struct {
	kind vfs.EventKind
	from string
	at   time.Time // when that was over
}

// echo is how long after a change a store may tell of it.
const echo = 2 * time.Second

// maxRecent is how many paths are remembered: each may be long.
const maxRecent = 8192

// made remembers a change through the tree.
func (r *recent) made(ev event, now time.Time) {
	r.sweep(now)
	r.own[ev.path] = made{ev.kind, ev.from, now}
	if ev.kind == vfs.Moved {
		r.own[ev.from] = made{kind: vfs.Removed, at: now}
	}
	r.happened(ev.kind, ev.path, ev.from, now)
}

// happened remembers that a name stands for something else.
func (r *recent) happened(kind vfs.EventKind, path, from string, now time.Time) {
	r.sweep(now)
	if kind == vfs.Changed {
		return
	}
	r.names[path] = now
	if kind == vfs.Moved {
		r.names[from] = now
	}
}

// forget forgets what has happened.
func (r *recent) forget() { r.own, r.names = map[string]made{}, map[string]time.Time{} }

// sweep forgets what is too old. If there is too much it forgets all: what is told twice does no harm.
func (r *recent) sweep(now time.Time) {
	if r.own == nil || len(r.own) > maxRecent || len(r.names) > maxRecent {
		r.forget()
	}
	if now.Sub(r.swept) < echo {
		return
	}
	r.swept = now
	for path, m := range r.own {
		if now.Sub(m.at) > echo {
			delete(r.own, path)
		}
	}
	for path, at := range r.names {
		if now.Sub(at) > echo {
			delete(r.names, path)
		}
	}
}

// told reports whether n is a change through the tree, which was told already. Who is told of that looks at what there is now. So a file's
// change was told if the file has not changed since, and a directory was if it is the one that was made.
func (r *recent) told(n vfs.Notice) bool {
	m, ok := r.own[n.Path]
	if !ok || r.names[n.Path].After(m.at) {
		return false
	}
	for up := n.Path; up != ""; { // under another directory by the same name it was something else
		up = up[:max(0, strings.LastIndexByte(up, '/'))]
		if at, ok := r.names[up]; ok && !at.Before(m.at) {
			return false
		}
	}
	switch {
	case n.Event == vfs.Removed:
		return m.kind == vfs.Removed
	case n.Event == vfs.Moved:
		return m.kind == vfs.Moved && m.from == n.From
	case n.Dir && n.Event == vfs.Created:
		return m.kind == vfs.Created && n.Mine
	}
	return m.kind != vfs.Removed && n.Last != 0 && n.Last <= m.at.UnixNano()
}

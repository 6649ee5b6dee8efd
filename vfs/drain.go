package vfs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// commit is a change that has begun, or a batch of them.
type commit struct {
	kind  OpKind
	path  string
	batch int // how many changes a batch has; 0 for a change by itself
	done  chan struct{}
}

// enter begins a change at g unless g's word is no longer word, which it
// reports as false. It never waits for another change.
func (g *Gate) enter(c *commit, word uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.word.Load() != word {
		return false
	}
	if g.commits == nil {
		g.commits = map[*commit]struct{}{}
	}
	g.commits[c] = struct{}{}
	g.tree.commits.Add(1)
	return true
}

// adopt takes over the commits of a gate below g that goes: whoever shuts g
// waits for them all the same.
func (g *Gate) adopt(cs map[*commit]struct{}) {
	if len(cs) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.commits == nil {
		g.commits = map[*commit]struct{}{}
	}
	maps.Copy(g.commits, cs)
}

func (g *Gate) leave(c *commit) {
	g.drop(c)
	g.tree.commits.Add(-1)
}

func (g *Gate) drop(c *commit) {
	g.mu.Lock()
	delete(g.commits, c)
	heirs := g.heirs
	g.mu.Unlock()
	for _, h := range heirs {
		h.drop(c)
	}
}

// has reports whether c is under way at g.
func (g *Gate) has(c *commit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.commits[c]
	return ok
}

// drain waits for the changes that had begun at g or below it, until ctx ends.
func (g *Gate) drain(ctx context.Context) error {
	if g.tree.commits.Load() == 0 { // as a guest may revoke again and again
		return nil
	}
	pending := g.pending()
	if len(pending) == 0 {
		return nil
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	for i, c := range pending {
		select {
		case <-c.done:
		case <-grace.C:
			return g.stuck(pending[i:])
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pending returns the changes that have begun at g or below it. Gates that are dead and
// have none are passed over from then on: nothing can begin there any more, and a guest
// may revoke what it has again and again.
func (g *Gate) pending() (all []*commit) {
	g.walks.Lock() // one at a time, so that who revokes again and again is alone in it
	defer g.walks.Unlock()
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	walked := g.belowBut((*Gate).isQuiet)
	for _, b := range walked {
		b.mu.Lock()
		for c := range b.commits {
			all = append(all, c)
		}
		b.mu.Unlock()
	}
	if len(all) == 0 && g.Revoked() {
		for _, b := range walked {
			b.quiet = true
		}
	}
	return all
}

func (g *Gate) isQuiet() bool { return g.quiet }

// stuck answers busy for those of cs that have not ended. Paths are relative to
// where g begins: who revokes need not know what is above.
func (g *Gate) stuck(cs []*commit) error {
	var what []string
	for _, c := range cs {
		select {
		case <-c.done:
		default:
			if c.batch > 0 {
				what = append(what, fmt.Sprintf("a batch of %d", c.batch))
				continue
			}
			what = append(what, strings.TrimSpace(c.kind.String()+" "+Printable(strings.Join(g.names(c.path), "/"))))
		}
	}
	if len(what) == 0 {
		return nil
	}
	slices.Sort(what)
	what = slices.Compact(what)
	n := len(what)
	if n > 8 {
		what = append(what[:8], "…")
	}
	return Errorf(Busy, "shut, but %d changes that had begun have not ended after %v and may still land: %s; ask again to wait again", n, Grace, strings.Join(what, ", "))
}

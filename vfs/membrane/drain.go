package membrane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

// commit is a change that has begun, or a batch of changes.
type commit struct {
	kind  OpKind
	path  string
	batch int // number of changes in a batch; 0 for a single change
	done  chan struct{}
}

// enter begins a change at g. It reports false when g's word is no longer word, or when g's
// time is over. It never waits for another change.
func (g *Gate) enter(c *commit, word uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.word.Load() != word || g.due() {
		return false
	}
	if g.commits == nil {
		g.commits = map[*commit]struct{}{}
	}
	g.commits[c] = struct{}{}
	g.tree.commits.Add(1)
	return true
}

// adopt takes over the commits of a gate below g that leaves the tree, so that a later
// drain of g waits for them too.
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
	heirs := g.adopters
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

// drain waits until ctx ends for the changes that have begun at g or below it.
func (g *Gate) drain(ctx context.Context) error { return g.drainAs(ctx, "shut") }

// drainAs is drain. done is what holds although a change has not ended.
func (g *Gate) drainAs(ctx context.Context, done string) error {
	if g.tree.commits.Load() == 0 { // the common case, and a guest may revoke very often
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
			return g.busyError(pending[i:], done)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pending returns the changes that have begun at g or below it. It skips dead gates
// that have none, now and later: nothing can begin there any more. So repeated revokes
// cost little.
func (g *Gate) pending() (all []*commit) {
	g.walks.Lock() // one at a time: repeated revokes delay only each other
	defer g.walks.Unlock()
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	walked := g.belowBut((*Gate).isQuiet)
	for _, b := range walked {
		b.mu.Lock()
		all = slices.AppendSeq(all, maps.Keys(b.commits))
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

// stuck answers busy with the commits of cs that have not ended. Paths are relative to
// g's origin: the caller need not know what is above.
func (g *Gate) busyError(cs []*commit, done string) error {
	var what []string
	for _, c := range cs {
		select {
		case <-c.done:
		default:
			if c.batch > 0 {
				what = append(what, fmt.Sprintf("a batch of %d", c.batch))
				continue
			}
			what = append(what, strings.TrimSpace(c.kind.String()+" "+vfs.Printable(strings.Join(g.names(c.path), "/"))))
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
	return vfs.Errorf(vfs.Busy, "%s, but %d changes that had begun have not ended after %v and may still take effect: %s; ask again to wait again", done, n, Grace, strings.Join(what, ", "))
}

package main

import (
	"context"
	"sync"

	"capd/client"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// syncEach syncs what needs no approval, all or nothing, and then each path that needs one by itself. So nothing that was approved
// is undone because something else was not.
func (a *aftermath) syncEach(ctx context.Context) (n int, left []diff.Skipped, err error) {
	rest, asking := a.parts(ctx)
	if len(asking) == 0 {
		return a.tree.Sync(ctx, nil)
	}
	n, left, err = a.tree.SyncPaths(ctx, rest)
	for _, paths := range asking {
		if err != nil {
			return n, left, err
		}
		var more int
		var behind []diff.Skipped
		a.env.logf("capd: waiting for an approval: %s", vfs.Printable(paths[0]))
		more, behind, err = a.tree.SyncPaths(ctx, paths)
		n, left = n+more, append(left, behind...)
	}
	return n, left, err
}

// parts returns the paths of the changes that need no approval, and of the others, each with what is synced together with it: a
// directory that is new or gone is synced with what is in it.
func (a *aftermath) parts(ctx context.Context) (rest []string, asking [][]string) {
	if a.from.guest == nil {
		return nil, nil
	}
	asks := a.asks(ctx)
	inside := "" // the topmost of the changes that the next ones may be in
	for i, c := range a.changed {
		if inside != "" && diff.Within(c.Path, inside) {
			continue
		}
		inside = c.Path
		need := false
		for j := i; j < len(a.changed) && diff.Within(a.changed[j].Path, c.Path); j++ {
			need = need || asks[j]
		}
		paths := []string{c.Path}
		if c.From != "" {
			paths = append(paths, c.From)
		}
		if need {
			asking = append(asking, paths)
		} else {
			rest = append(rest, paths...)
		}
	}
	return rest, asking
}

// askedAtOnce is how many questions are under way at a time.
const askedAtOnce = 32

// asks returns which of the changes need an approval. A host that cannot tell says nothing of them.
func (a *aftermath) asks(ctx context.Context) []bool {
	all := make([]bool, len(a.changed))
	turns := make(chan struct{}, askedAtOnce)
	var wg sync.WaitGroup
	for i, c := range a.changed {
		turns <- struct{}{}
		wg.Go(func() {
			all[i] = asksAbout(ctx, a.from.guest, c)
			<-turns
		})
	}
	wg.Wait()
	return all
}

func asksAbout(ctx context.Context, d *client.Dir, c diff.Change) bool {
	right, path, to := membrane.Write, c.Path, ""
	switch {
	case c.From != "":
		right, path, to = membrane.Move, c.From, c.Path
	case c.Is.Absent():
		right = membrane.Delete
	}
	x, err := d.Explain(ctx, right, path, to)
	return err == nil && x.Asks
}

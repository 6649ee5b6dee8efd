package materialize

import (
	"context"
	"errors"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
)

// SyncOptions configure a Sync.
type SyncOptions struct {
	// Stop, if not nil, stops the programs in the directory before it is compared. If
	// it returns an error, Sync ends with that error.
	Stop func() error

	Paths    []string              // bring back only what is at and below these; nil means all
	Name     string                // of the Dir; batch.Recover asks for it
	Keep     bool                  // keep the batch for batch.Undo, until batch.Forget
	Progress func(done, total int) // as in batch.Options
}

// Report is the result of a Sync.
type Report struct {
	ID      string         // of the batch; "" if there was nothing to bring back
	Changes []diff.Change  // what was brought back, in byte order of paths; without contents
	Skipped []diff.Skipped // what was not, in byte order of paths
}

// Sync brings back what changed in the tree since it was materialized or last synced,
// all or nothing, through its Dir. It does so in one batch, with intent and copies in
// journal. It answers diff.Conflicts, with every path that changed on both sides, and
// the errors of [Tree.Changes]. Then nothing was brought back, and the tree is
// unchanged.
//
// If the Dir refuses a path (denied, readOnly, askDenied, askTimeout, unsupported, or
// invalid for a name), Sync skips that path and what depends on it, and brings back the
// rest. A guard that asks somebody may then be asked about a path again.
func (t *Tree) Sync(ctx context.Context, journal vfs.Dir, o SyncOptions) (Report, error) {
	only, err := newScope(o.Paths)
	if err != nil {
		return Report{}, err
	}
	if o.Paths == nil {
		only = nil
	}
	if o.Stop != nil {
		if err := o.Stop(); err != nil {
			return Report{}, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l, err := t.compare(ctx, only)
	if err != nil {
		return Report{}, err
	}
	if err := l.refuseUnable(); err != nil {
		return Report{}, err
	}
	id, c, err := l.bring(journal, batch.Options{Name: o.Name, Keep: o.Keep, Progress: o.Progress})
	if err != nil {
		return Report{ID: id, Skipped: c.Skipped}, err
	}
	l.done()
	for i := range c.List {
		c.List[i].Content = nil
	}
	return Report{ID: id, Changes: c.List, Skipped: c.Skipped}, nil
}

// maxTries is how often a Dir that cannot be asked ahead may refuse something, before
// Sync brings back nothing.
const maxTries = 64

// bring makes the batch, without what the Dir refuses.
func (l *comparison) bring(journal vfs.Dir, o batch.Options) (id string, c Changes, err error) {
	for try := 0; ; try++ {
		c = l.changes()
		id, err = batch.Run(l.ctx, journal, l.t.from, c.List, o)
		if err == nil || !isPolicy(err) || try == maxTries {
			return id, c, err
		}
		n := len(l.out)
		if try == 0 { // a batch returns only the first refusal
			if err := l.askEach(); err != nil {
				return "", c, err
			}
		}
		e, _ := errors.AsType[*vfs.Error](err)
		if _, ok := l.find(e.Path); ok {
			l.refusePolicy(e.Path, err)
		}
		if len(l.out) == n {
			return id, c, err
		}
	}
}

// done updates the records after the batch.
func (l *comparison) done() {
	for _, f := range l.found {
		switch {
		case l.out[f.path]:
		case f.r == nil:
			delete(l.t.records, f.path)
		default:
			f.r.seen = l.id
			l.t.records[f.path] = f.r
		}
	}
}

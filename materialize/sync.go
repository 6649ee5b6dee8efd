package materialize

import (
	"context"
	"errors"

	"capd/vfs"
	"capd/vfs/batch"
)

// SyncOptions are the circumstances of a Sync.
type SyncOptions struct {
	// Stop, if any, stops what works in the directory, before it is looked at.
	// Its error ends the Sync.
	Stop func() error

	Paths    []string              // bring back what is at and below these alone; nil: all
	Name     string                // of the Dir, as batch.Recover will ask for it
	Keep     bool                  // keep the batch for batch.Undo, until batch.Forget
	Progress func(done, total int) // as batch.Options has it
}

// Report is what a Sync did.
type Report struct {
	ID      string         // of the batch; "" when nothing was to be brought back
	Changes []batch.Change // what was brought back, in byte order of paths; without contents
	Skipped []Skipped      // what was not, in byte order of paths
}

// Sync brings back what changed in the tree since it was materialized or last
// synced, all or nothing, through the Dir that it was materialized from: as one
// batch, with its intent and its copies in journal. It answers batch.Conflicts,
// with every path that changed on both sides, and what [Tree.Changes] answers; and
// then nothing is brought back, and the tree is as it was.
//
// What the Dir does not take at a path (denied, readOnly, askDenied, askTimeout,
// unsupported, and invalid for a name) does not keep back the rest: it is skipped, with what depends on it.
// A guard that asks somebody may be asked about a path again then.
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
	l, err := t.look(ctx, only)
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

// maxTries is how often a Dir that cannot be asked ahead may refuse something, until
// nothing is brought back.
const maxTries = 64

// bring makes the batch, without what the Dir refuses.
func (l *look) bring(journal vfs.Dir, o batch.Options) (id string, c Changes, err error) {
	for try := 0; ; try++ {
		c = l.changes()
		id, err = batch.Run(l.ctx, journal, l.t.from, c.List, o)
		if err == nil || !isPolicy(err) || try == maxTries {
			return id, c, err
		}
		n := len(l.out)
		if try == 0 { // the batch answers the first refusal alone
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

// done has the records say what the batch has made.
func (l *look) done() {
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

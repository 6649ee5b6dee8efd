package materialize

import (
	"context"

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
// with every path that changed on both sides, whatever the Dir's guards have
// against any path, and what [Tree.Changes] answers; and then nothing is brought
// back, and the tree is as it was.
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
	c := l.changes()
	id, err := batch.Run(ctx, journal, t.from, c.List, batch.Options{Name: o.Name, Keep: o.Keep, Progress: o.Progress})
	if err != nil {
		return Report{ID: id, Skipped: c.Skipped}, err
	}
	for i, f := range l.found {
		c.List[i].Content = nil
		if f.r == nil {
			delete(t.records, f.path)
		} else {
			f.r.seen = l.id
			t.records[f.path] = f.r
		}
	}
	return Report{ID: id, Changes: c.List, Skipped: c.Skipped}, nil
}

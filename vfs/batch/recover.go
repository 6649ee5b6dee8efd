package batch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// inverse returns the changes that undo changes.
func (e *entry) inverse(changes []diff.Change) []diff.Change {
	back := make([]diff.Change, len(changes))
	for i, c := range changes {
		back[i] = diff.Change{Path: c.Path, Was: c.Is, Is: c.Was, Content: e.opener(c.Was)}
	}
	return back
}

// opener returns a function that opens the journal's copy of a file's content.
func (e *entry) opener(s diff.State) func(context.Context) (io.ReadCloser, error) {
	if s.Kind != vfs.FileKind {
		return nil
	}
	segment := e.intent.contents[s.Version]
	return func(ctx context.Context) (io.ReadCloser, error) {
		data, err := e.open(ctx, dataFile)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{verify(data, segment, s.Version), data}, nil
	}
}

// undo makes those of the changes back that are not made yet. It skips those at which
// somebody else changed something. The batch is over then, and stays in the journal
// only if something was skipped. After an error it is not over.
func (e *entry) undo(ctx context.Context, at *diff.Cursor, back []diff.Change, o Options) (left []diff.Conflict, err error) {
	w := &runner{entry: e, at: at, o: Options{Step: o.Step}}
	unsynced, sync := vfs.SyncTogether(ctx)
	left, err = w.restore(unsynced, steps(back))
	if synced := sync(); err == nil { // before the journal drops it
		err = synced
	}
	switch {
	case err != nil:
		return left, err
	case len(left) > 0:
		return left, e.mark(ctx, undone)
	}
	return nil, e.drop(ctx)
}

// Undo undoes the kept batch id. It does so in a batch of its own: if the tree is no
// longer as the batch left it, the error is [diff.Conflicts] and nothing is changed. On
// success it removes the batch from the journal. It answers notFound, and invalid for a
// batch that was not done.
func Undo(ctx context.Context, journal vfs.Dir, id string, target vfs.Dir) error {
	e, o, err := load(ctx, journal, id)
	if err != nil {
		return err
	}
	if o != done {
		return vfs.Errorf(vfs.Invalid, "this batch was not done, or was undone already")
	}
	if _, err := Run(ctx, journal, target, e.inverse(e.intent.Changes), Options{Name: e.intent.Name}); err != nil {
		return err
	}
	return e.drop(context.WithoutCancel(ctx))
}

// Recovered is the result for a batch that was cut short, or that was kept.
type Recovered struct {
	ID   string
	Name string          // of its target; "" if unknown
	Done bool            // it was done; otherwise it was undone
	Kept bool            // it had ended before, and is kept: for Undo if it was done, and otherwise for the copies that Left was about
	Left []diff.Conflict // what somebody else had changed, so it was not undone; see [Load]
	Err  error           // why it could be neither finished nor undone; the next Recover tries again
}

// Recover deals with every unfinished batch in journal, the latest first. It finishes a
// batch of which all changes were made, and undoes any other. It leaves alone, and
// reports, what somebody else has changed since; the journal keeps the copies for [Load]
// until [Forget]. It reports batches that were kept, and leaves them as they are; what was Left of them is not known
// any more. Call Recover before the first Run of a process. It may be interrupted and called again.
//
// open returns the target of that name, which Recover closes. If open returns nil and
// no error, the target no longer exists, and Recover drops the batch. The error joins
// that of reading the journal and those of all batches.
func Recover(ctx context.Context, journal vfs.Dir, open func(ctx context.Context, name string) (vfs.Dir, error)) ([]Recovered, error) {
	ids, err := ids(ctx, journal)
	if err != nil {
		return nil, err
	}
	var all []Recovered
	var errs []error
	for _, id := range slices.Backward(ids) {
		e := &entry{journal: journal, id: id}
		r, over := e.recover(ctx, open)
		e.close()
		if !over {
			all = append(all, r)
			errs = append(errs, r.Err)
		}
	}
	return all, errors.Join(errs...)
}

// recover settles one batch. over says that there is nothing to report.
func (e *entry) recover(ctx context.Context, open func(ctx context.Context, name string) (vfs.Dir, error)) (r Recovered, over bool) {
	r.ID = e.id
	err := e.readIntent(ctx)
	if vfs.CodeOf(err) == vfs.NotFound { // it had changed nothing, or was being dropped
		r.Err = e.drop(ctx)
		return r, r.Err == nil
	}
	if r.Err = err; err != nil {
		return r, false
	}
	r.Name = e.intent.Name
	o, err := e.outcome(ctx)
	switch {
	case err != nil:
		r.Err = err
	case o == undone:
		r.Kept = true
	case o == done && e.intent.Keep:
		r.Done, r.Kept = true, true
	case o == done:
		r.Done, r.Err = true, e.drop(ctx)
	default:
		r.Left, r.Err = e.undoIn(ctx, open)
	}
	return r, false
}

// Needed reports whether journal has a batch that is not done: one that Recover has to undo, or one that was undone except
// where somebody else had changed something, of which the journal has the only copies. Such a journal must not be removed.
func Needed(ctx context.Context, journal vfs.Dir) (bool, error) {
	ids, err := ids(ctx, journal)
	if err != nil {
		return true, err
	}
	for _, id := range ids {
		_, o, err := load(ctx, journal, id)
		if vfs.CodeOf(err) == vfs.NotFound { // it had changed nothing, or was being dropped
			continue
		}
		if err != nil || o != done {
			return true, err
		}
	}
	return false, nil
}

func (e *entry) undoIn(ctx context.Context, open func(ctx context.Context, name string) (vfs.Dir, error)) ([]diff.Conflict, error) {
	target, err := open(ctx, e.intent.Name)
	if err != nil {
		return nil, err
	}
	if target == nil {
		return nil, e.drop(ctx)
	}
	defer target.Close()
	at := diff.NewCursor(target)
	defer at.Close()
	return e.undo(ctx, at, e.inverse(e.intent.Changes), Options{})
}

// ids returns the ids of the batches in journal, the oldest first.
func ids(ctx context.Context, journal vfs.Dir) ([]string, error) {
	var all []string
	for f, err := range journal.List(ctx) {
		if err != nil {
			return nil, err
		}
		id, _, _ := strings.Cut(f.Name, ".")
		if checkID(id) == nil && (len(all) == 0 || all[len(all)-1] != id) {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return all, nil
}

// Load returns the changes of a kept batch, in tree order. Their Content and Old read
// the journal's copies, until Forget. It answers notFound.
func Load(ctx context.Context, journal vfs.Dir, id string) ([]diff.Change, error) {
	e, _, err := load(ctx, journal, id)
	if err != nil {
		return nil, err
	}
	for i := range e.intent.Changes {
		c := &e.intent.Changes[i]
		c.Content, c.Old = e.opener(c.Is), e.opener(c.Was)
	}
	return e.intent.Changes, nil
}

func load(ctx context.Context, journal vfs.Dir, id string) (*entry, outcome, error) {
	if err := checkID(id); err != nil {
		return nil, "", err
	}
	e := &entry{journal: journal, id: id}
	if err := e.readIntent(ctx); err != nil {
		return nil, "", err
	}
	o, err := e.outcome(ctx)
	return e, o, err
}

// Forget removes a finished batch from the journal. It answers notFound, and busy for
// an unfinished one.
func Forget(ctx context.Context, journal vfs.Dir, id string) error {
	e, o, err := load(ctx, journal, id)
	if err != nil {
		return err
	}
	if o == "" {
		return vfs.Errorf(vfs.Busy, "this batch has not ended; if it was interrupted, a restart ends it")
	}
	return e.drop(ctx)
}

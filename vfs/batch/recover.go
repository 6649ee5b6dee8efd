package batch

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"capd/vfs"
)

// inverse is what undoes changes.
func (e *entry) inverse(changes []Change) []Change {
	back := make([]Change, len(changes))
	for i, c := range changes {
		back[i] = Change{Path: c.Path, Was: c.Becomes, Becomes: c.Was, Content: e.opener(c.Was)}
	}
	return back
}

// opener opens the journal's copy of a file's content.
func (e *entry) opener(s State) func(context.Context) (io.ReadCloser, error) {
	if s.Kind != vfs.FileKind {
		return nil
	}
	segment := e.intent.contents[s.Version]
	return func(ctx context.Context) (io.ReadCloser, error) {
		data, err := e.open(ctx, dataFile)
		if err != nil {
			return nil, err
		}
		return &reading{verify(data, segment, s.Version), []io.Closer{data}}, nil
	}
}

// undo makes the changes of back that are not made yet, and leaves alone what
// somebody else has changed. The batch is over then, and stays in the journal
// only for what was left. After an error it is not over.
func (e *entry) undo(ctx context.Context, at *cursor, back []Change, o Options) (left []Conflict, err error) {
	w := &work{entry: e, at: at, o: Options{Step: o.Step}}
	unsynced, sync := vfs.SyncTogether(ctx)
	left, err = w.restore(unsynced, steps(back))
	if synced := sync(); err == nil { // before the journal forgets it
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

// Undo takes back the batch called id, which was done and kept: as a batch of its
// own, so that a tree that is no longer as the batch left it is [Conflicts], and
// nothing is changed. The journal forgets the batch when that is done. It answers
// notFound, and invalid for a batch that was not done.
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

// Recovered is what became of a batch that a process which died left behind.
type Recovered struct {
	ID   string
	Name string     // of its target; "" when it cannot be told
	Done bool       // it was done, and is forgotten now; otherwise it was undone
	Left []Conflict // what somebody else had changed, and so was not undone; see [Load]
	Err  error      // why it is neither done nor undone; the next Recover tries again
}

// Recover ends every batch that is in journal unfinished, the latest first: it is
// undone, wholly, unless it was done already. What somebody else changed since is
// left as it is and told of, and the journal keeps the copies for [Load] until
// [Forget]. It is called before the first Run of a process, and may itself be
// interrupted and called again. open gives the target of that name, which Recover
// closes; nil without an error says that the target is gone for good with all that
// it held, and the batch is forgotten. The error is that of reading the journal, and those of all batches.
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

// recover ends one batch. over says that there is nothing to tell of.
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
	case o == undone, o == done && e.intent.Keep:
		return r, true
	case o == done:
		r.Done, r.Err = true, e.drop(ctx)
	default:
		r.Left, r.Err = e.undoIn(ctx, open)
	}
	return r, false
}

func (e *entry) undoIn(ctx context.Context, open func(ctx context.Context, name string) (vfs.Dir, error)) ([]Conflict, error) {
	target, err := open(ctx, e.intent.Name)
	if err != nil {
		return nil, err
	}
	if target == nil {
		return nil, e.drop(ctx)
	}
	defer target.Close()
	at := &cursor{root: target}
	defer at.close()
	return e.undo(ctx, at, e.inverse(e.intent.Changes), Options{})
}

// ids are those of the batches that journal has anything of, the oldest first.
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
	return all, nil
}

// Record is a batch that the journal keeps.
type Record struct {
	ID      string
	Name    string    // of its target
	Begun   time.Time // in milliseconds
	Done    bool      // false for one that was undone but for what others had changed
	Changes int
}

// List returns the batches that are over and kept, the oldest first.
func List(ctx context.Context, journal vfs.Dir) ([]Record, error) {
	ids, err := ids(ctx, journal)
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, id := range ids {
		e, o, err := load(ctx, journal, id)
		switch {
		case vfs.CodeOf(err) == vfs.NotFound, err == nil && o == "":
			continue // not over
		case err != nil:
			return nil, err
		}
		ms, _ := strconv.ParseInt(id[:13], 16, 64)
		all = append(all, Record{id, e.intent.Name, time.UnixMilli(ms), o == done, len(e.intent.Changes)})
	}
	return all, nil
}

// Load returns the changes of a batch that is kept, in tree order. Their Content
// and Old read the journal's copies, until Forget. It answers notFound.
func Load(ctx context.Context, journal vfs.Dir, id string) ([]Change, error) {
	e, _, err := load(ctx, journal, id)
	if err != nil {
		return nil, err
	}
	for i := range e.intent.Changes {
		c := &e.intent.Changes[i]
		c.Content, c.Old = e.opener(c.Becomes), e.opener(c.Was)
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

// Forget drops a batch that is over from the journal. It answers notFound, and
// busy for one that is not over.
func Forget(ctx context.Context, journal vfs.Dir, id string) error {
	e, o, err := load(ctx, journal, id)
	if err != nil {
		return err
	}
	if o == "" {
		return vfs.Errorf(vfs.Busy, "this batch is not over; a restart ends it if it was interrupted")
	}
	return e.drop(ctx)
}

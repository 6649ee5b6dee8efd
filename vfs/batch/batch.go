// Package batch changes a tree in many places, all or none.
//
// A batch writes down what it will do, and copies of all that it will overwrite
// or remove, in a journal, before it changes anything. When it fails midway it
// is undone from the copies; when the process dies midway, [Recover] undoes it at
// the next start. Once it is done, and was to be kept, [Undo] takes it back.
//
// The journal is a directory that nobody else writes to, in a store that keeps
// what Replace has answered for: a private directory of the host, as a rule. A
// batch holds there what it overwrites and what it writes, until it is over.
//
// Nothing is written through a link: a path whose way leads through one is in
// conflict.
package batch

import (
	"context"
	"errors"
	"io"
	"slices"

	"capd/vfs"
)

// State is what is at a path. The zero State says that nothing is. States are
// equal when they are ==.
type State struct {
	Kind    vfs.Kind    // FileKind, DirKind or LinkKind; 0, which is vfs.Other, for nothing
	Version vfs.Version // of a file: never the zero Version
	Exec    bool        // of a file: its owner may execute it
	Target  string      // of a link
}

// Foreign is the Kind in a [Conflict] of what is neither file, directory nor
// link, or of a file too long to have a version.
const Foreign vfs.Kind = 255

// Absent reports whether s says that nothing is there.
func (s State) Absent() bool { return s == State{} }

func (s State) String() string {
	switch {
	case s.Absent():
		return "nothing"
	case s.Kind == vfs.FileKind && s.Exec:
		return "executable file"
	}
	return s.Kind.String()
}

// Change is what a batch does at one path, relative to its target. A directory
// that is to go, or to become something else, must have all that it holds in the
// batch too.
type Change struct {
	Path         string
	Was, Becomes State

	// Content opens the content of the file that it becomes. It may be nil when
	// a file of the batch has that content already, by its Was.
	Content func(ctx context.Context) (io.ReadCloser, error)

	// Old opens the copy of the file that it was. Only Load sets it.
	Old func(ctx context.Context) (io.ReadCloser, error)
}

// Options are a batch's circumstances.
type Options struct {
	Name string // of the target, as [Recover] will ask for it
	Keep bool   // keep the batch when it is done, for Undo, until Forget

	// Progress, if any, is told how many of the steps are done. It runs while a
	// revoke waits for the batch, and must not wait itself.
	Progress func(done, total int)

	// Step, if any, is called after each thing done that a restart would find.
	Step func(step string)
}

func (o *Options) step(step string) {
	if o.Step != nil {
		o.Step(step)
	}
}

// MaxChanges is how many changes a batch may have.
const MaxChanges = 1 << 20

// Run makes changes to target, all or none, and answers the batch's id: "" when
// there was nothing to do. A path that is as wanted already is left alone; one
// that is neither as it was nor as wanted is in conflict, and the error is
// [Conflicts] with all of those. Run takes over none of the Dirs.
//
// Until everything is staged and target's guards have agreed, nothing is changed
// and ctx's end, or a revoke, ends it. From then on it finishes, or undoes what
// it did and answers why. What it could not undo, a later [Recover] does; what
// it left, since somebody else had changed it meanwhile, is in [Conflicts] too,
// and [Load] has the copies.
//
// It answers invalid for changes that contradict each other, limit for more than
// [MaxChanges], unsupported when target cannot make the links or the executable
// files that it takes, now or to undo it, and busy when a content turns out
// other than its version says.
func Run(ctx context.Context, journal, target vfs.Dir, changes []Change, o Options) (id string, err error) {
	if journal == nil {
		return "", vfs.Errorf(vfs.Invalid, "a batch needs a journal")
	}
	changes, err = ordered(changes)
	if err != nil {
		return "", err
	}
	at := &cursor{root: target}
	defer at.close()
	todo, err := check(ctx, at, changes)
	if err != nil || len(todo) == 0 {
		return "", err
	}
	if err := brought(todo); err != nil {
		return "", err
	}
	if err := able(target, todo); err != nil {
		return "", err
	}
	e := newEntry(journal)
	defer e.close()
	e.intent = intent{Name: o.Name, Keep: o.Keep, Changes: todo}
	held, release, err := e.prepare(ctx, at, o)
	if err != nil {
		return "", errors.Join(err, e.drop(context.WithoutCancel(ctx)))
	}
	defer release()
	return e.id, e.carryOut(held, at, o)
}

// prepare stages everything, asks target's guards, and writes the intent. When
// it fails, target is as it was. The context that it returns has no end, and
// release lets a revoke of target go on.
func (e *entry) prepare(ctx context.Context, at *cursor, o Options) (held context.Context, release func(), err error) {
	if err := e.stage(ctx, at); err != nil {
		return nil, nil, err
	}
	o.step("staged")
	at.close() // what guards target may ask a human now
	held, release, err = vfs.Hold(ctx, at.root, ops(steps(e.intent.Changes)))
	if err != nil {
		return nil, nil, err
	}
	held = context.WithoutCancel(held)
	o.step("held")
	if err := e.writeIntent(held); err != nil {
		release()
		return nil, nil, err
	}
	o.step("intent")
	return held, release, nil
}

// carryOut makes the changes, and marks the batch as done or undoes it.
func (e *entry) carryOut(ctx context.Context, at *cursor, o Options) error {
	w := &work{entry: e, at: at, o: o}
	all := steps(e.intent.Changes)
	unsynced, sync := vfs.SyncTogether(ctx)
	tried, err := w.run(unsynced, all)
	if synced := sync(); err == nil { // before the journal says that it is done
		err = synced
	}
	if err == nil {
		if err = e.mark(ctx, done); err != nil {
			if lost := e.unmark(ctx); lost != nil {
				return errors.Join(err, lost) // Recover finds it done, or not
			}
		}
	}
	if err != nil {
		left, failed := e.undo(ctx, at, e.inverse(concern(all[:tried])), o)
		if len(left) > 0 {
			failed = errors.Join(failed, &Conflicts{left})
		}
		return errors.Join(err, failed)
	}
	o.step("done")
	if !o.Keep {
		_ = e.drop(ctx) // or the next Recover does
		o.step("dropped")
	}
	return nil
}

// able answers unsupported when target cannot make the links and executable
// files that changes need, there or back.
func able(target vfs.Dir, changes []Change) error {
	_, links := target.(vfs.Symlinker)
	_, execs := target.(vfs.Installer)
	for _, c := range changes {
		switch {
		case !links && (c.Was.Kind == vfs.LinkKind || c.Becomes.Kind == vfs.LinkKind):
			return vfs.At(c.Path, vfs.Errorf(vfs.Unsupported, "this store cannot make links; leave them out"))
		case !execs && c.Was.Exec != c.Becomes.Exec:
			return vfs.At(c.Path, vfs.Errorf(vfs.Unsupported, "this store cannot say of a file whether it can be executed; leave those out"))
		}
	}
	return nil
}

// ordered returns changes in tree order, parents first, once it is sure that
// they are well formed and do not contradict each other.
func ordered(changes []Change) ([]Change, error) {
	if len(changes) > MaxChanges {
		return nil, vfs.Errorf(vfs.Limit, "a batch has at most %d changes; make several", MaxChanges)
	}
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b Change) int { return compare(a.Path, b.Path) })
	becomes := make(map[string]State, len(changes))
	for _, c := range changes {
		if err := c.valid(); err != nil {
			return nil, vfs.At(c.Path, err)
		}
		if _, twice := becomes[c.Path]; twice {
			return nil, vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "a batch changes a path once"))
		}
		becomes[c.Path] = c.Becomes
	}
	for _, c := range changes {
		if c.Becomes.Absent() {
			continue
		}
		for dir, _ := split(c.Path); dir != ""; dir, _ = split(dir) {
			if s, ok := becomes[dir]; ok && s.Kind != vfs.DirKind {
				return nil, vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "the same batch makes what this lies in something else than a directory"))
			}
		}
	}
	return changes, nil
}

// brought answers invalid for a change that needs a content and has none.
func brought(changes []Change) error {
	there := map[vfs.Version]bool{}
	for _, c := range changes {
		if c.Was.Kind == vfs.FileKind {
			there[c.Was.Version] = true
		}
	}
	for _, c := range changes {
		if c.Becomes.Kind == vfs.FileKind && c.Content == nil && !there[c.Becomes.Version] {
			return vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "a new content has to be brought with the change"))
		}
	}
	return nil
}

func (c *Change) valid() error {
	if _, err := vfs.SplitPath(c.Path); err != nil {
		return err
	}
	if c.Was.Absent() && !c.Becomes.Absent() {
		_, name := split(c.Path)
		if err := vfs.CheckNewName(name); err != nil {
			return err
		}
	}
	for _, s := range []State{c.Was, c.Becomes} {
		want := State{Kind: s.Kind}
		switch s.Kind {
		case vfs.Other, vfs.DirKind:
		case vfs.FileKind:
			want.Version, want.Exec = s.Version, s.Exec
			if s.Version.IsZero() {
				return vfs.Errorf(vfs.Invalid, "the state of a file has its version")
			}
		case vfs.LinkKind:
			want.Target = s.Target
			if err := vfs.CheckTarget(s.Target); err != nil {
				return err
			}
		default:
			return vfs.Errorf(vfs.Invalid, "a batch has files, directories and links")
		}
		if s != want {
			return vfs.Errorf(vfs.Invalid, "a state says what its kind does not have")
		}
	}
	return nil
}

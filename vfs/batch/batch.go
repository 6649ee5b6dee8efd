// Package batch makes many changes to a tree, all or none.
//
// Before a batch changes anything, it writes to a journal what it will do, and copies
// of everything that it will overwrite or remove. If it fails, it undoes its changes
// from the copies. If the process dies, [Recover] undoes them at the next start. A
// finished batch that was kept can be undone with [Undo].
//
// The journal is a directory to which nobody else writes, usually private to the host.
// Its store must keep what Replace has answered for. While it runs, a batch keeps there
// what it overwrites and what it writes.
//
// A batch does not write through links. A path that leads through a link is a conflict.
package batch

import (
	"context"
	"errors"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Options configure a batch.
type Options struct {
	ID   string // of the batch: "c" and digits, which no other batch of the journal has; "" chooses one
	Name string // of the target; Recover asks for it
	Keep bool   // keep the finished batch for Undo, until Forget

	// Progress, if not nil, is told how many steps are done. A revoke waits for the
	// batch meanwhile, so Progress must not block.
	Progress func(done, total int)

	// Step, if not nil, is called after each action that a restart would find.
	Step func(step string)
}

func (o *Options) step(step string) {
	if o.Step != nil {
		o.Step(step)
	}
}

// Unfinished says that not all of a batch that failed could be taken back.
type Unfinished struct {
	Left []diff.Conflict // what somebody else has changed meanwhile, and stays; [Load] has the copies
	Err  error           // why something else could not be taken back, with its path: the next [Recover] tries again. Nil if all else was
}

func (u *Unfinished) Error() string {
	return "not all was taken back: " + errors.Join(u.Unwrap()...).Error()
}

// Unwrap returns the reasons.
func (u *Unfinished) Unwrap() (all []error) {
	if u.Err != nil {
		all = append(all, u.Err)
	}
	if len(u.Left) > 0 {
		all = append(all, &diff.Conflicts{Paths: u.Left})
	}
	return all
}

// MaxChanges is how many changes a batch may have.
const MaxChanges = 1 << 20

// Run makes changes to target, all or none, and returns the batch's id, or "" if there
// was nothing to do. It skips a path that is already as wanted. If a path is neither as
// it was nor as wanted, Run changes nothing and the error is [diff.Conflicts] with all such
// paths. The caller keeps the Dirs.
//
// The end of ctx or a revoke stops Run until everything is staged and target's guards
// have agreed; nothing has changed then. After that Run finishes, or undoes its changes
// and returns why. A later [Recover] undoes what Run could not. If somebody else
// changed a path meanwhile, Run leaves it and lists it in [diff.Conflicts]; [Load] has the
// copies.
//
// Run answers invalid for changes that contradict each other and limit for more than
// [MaxChanges]. It answers unsupported when target cannot make the links or executable
// files that the batch, or undoing it, needs. It answers busy when a content does not
// match its version.
func Run(ctx context.Context, journal, target vfs.Dir, changes []diff.Change, o Options) (id string, err error) {
	if journal == nil {
		return "", vfs.Errorf(vfs.Invalid, "a batch needs a journal")
	}
	changes, err = ordered(changes)
	if err != nil {
		return "", err
	}
	at := diff.NewCursor(target)
	defer at.Close()
	todo, err := check(ctx, at, changes)
	if err != nil || len(todo) == 0 {
		return "", err
	}
	if err := checkContents(todo); err != nil {
		return "", err
	}
	if err := checkAbilities(target, todo); err != nil {
		return "", err
	}
	e, err := newEntry(journal, o.ID)
	if err != nil {
		return "", err
	}
	defer e.close()
	e.intent = intent{Name: o.Name, Keep: o.Keep, Changes: todo}
	held, release, err := e.prepare(ctx, at, target, o)
	if err != nil {
		return "", errors.Join(err, e.drop(context.WithoutCancel(ctx)))
	}
	defer release()
	return e.id, e.carryOut(held, at, o)
}

// prepare stages everything, asks target's guards, and writes the intent. If it fails,
// target is unchanged. The context that it returns never ends. release lets a waiting
// revoke of target go on.
func (e *entry) prepare(ctx context.Context, at *diff.Cursor, target vfs.Dir, o Options) (held context.Context, release func(), err error) {
	if err := e.stage(ctx, at); err != nil {
		return nil, nil, err
	}
	o.step("staged")
	at.Close() // guards may now ask a human
	held, release, err = membrane.Hold(ctx, target, ops(steps(e.intent.Changes)))
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

// carryOut makes the changes. It then marks the batch as done, or undoes it.
func (e *entry) carryOut(ctx context.Context, at *diff.Cursor, o Options) error {
	w := &runner{entry: e, at: at, o: o}
	all := steps(e.intent.Changes)
	unsynced, sync := vfs.SyncTogether(ctx)
	tried, err := w.run(unsynced, all)
	if synced := sync(); err == nil { // before the journal says that it is done
		err = synced
	}
	if err == nil {
		if err = e.mark(ctx, done); err != nil {
			if lost := e.unmark(ctx); lost != nil {
				return errors.Join(err, lost) // Recover finds out whether it was done
			}
		}
	}
	if err != nil {
		return e.takeBack(ctx, at, changesOf(all[:tried]), o, err)
	}
	o.step("done")
	if !o.Keep {
		_ = e.drop(ctx) // if this fails, the next Recover does it
		o.step("dropped")
	}
	return nil
}

// takeBack undoes changes, which were made before one failed with cause, and returns cause, joined with an [Unfinished] if something is left.
func (e *entry) takeBack(ctx context.Context, at *diff.Cursor, changes []diff.Change, o Options, cause error) error {
	left, err := e.undo(membrane.Restoring(ctx), at, e.inverse(changes), o)
	if err == nil && len(left) == 0 {
		return cause
	}
	return errors.Join(cause, &Unfinished{Left: left, Err: err})
}

// checkAbilities answers unsupported when target cannot make the links and executable files that
// changes, or their inverse, need.
func checkAbilities(target vfs.Dir, changes []diff.Change) error {
	_, links := target.(vfs.Symlinker)
	_, execs := target.(vfs.Installer)
	for _, c := range changes {
		switch {
		case !links && (c.Was.Kind == vfs.LinkKind || c.Is.Kind == vfs.LinkKind):
			return vfs.At(c.Path, vfs.Errorf(vfs.Unsupported, "this store cannot make links; leave them out"))
		case !execs && c.Was.Exec != c.Is.Exec:
			return vfs.At(c.Path, vfs.Errorf(vfs.Unsupported, "this store keeps no executable bits; leave them out"))
		}
	}
	return nil
}

// ordered returns changes in tree order, parents first. It checks that they are well
// formed and do not contradict each other.
func ordered(changes []diff.Change) ([]diff.Change, error) {
	if len(changes) > MaxChanges {
		return nil, vfs.Errorf(vfs.Limit, "a batch has at most %d changes; make several", MaxChanges)
	}
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b diff.Change) int { return diff.ComparePaths(a.Path, b.Path) })
	becomes := make(map[string]diff.State, len(changes))
	for _, c := range changes {
		if err := valid(&c); err != nil {
			return nil, vfs.At(c.Path, err)
		}
		if _, twice := becomes[c.Path]; twice {
			return nil, vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "a batch may change a path only once"))
		}
		becomes[c.Path] = c.Is
	}
	for _, c := range changes {
		if c.Is.Absent() {
			continue
		}
		for dir, _ := diff.Split(c.Path); dir != ""; dir, _ = diff.Split(dir) {
			if s, ok := becomes[dir]; ok && s.Kind != vfs.DirKind {
				return nil, vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "the same batch replaces the directory that this path is in"))
			}
		}
	}
	return changes, nil
}

// checkContents answers invalid for a change that needs a content and has none.
func checkContents(changes []diff.Change) error {
	there := map[vfs.Version]bool{}
	for _, c := range changes {
		if c.Was.Kind == vfs.FileKind {
			there[c.Was.Version] = true
		}
	}
	for _, c := range changes {
		if c.Is.Kind == vfs.FileKind && c.Content == nil && !there[c.Is.Version] {
			return vfs.At(c.Path, vfs.Errorf(vfs.Invalid, "a change needs its new content"))
		}
	}
	return nil
}

func valid(c *diff.Change) error {
	if _, err := vfs.SplitPath(c.Path); err != nil {
		return err
	}
	if c.Was.Absent() && !c.Is.Absent() {
		_, name := diff.Split(c.Path)
		if err := vfs.CheckNewName(name); err != nil {
			return err
		}
	}
	for _, s := range []diff.State{c.Was, c.Is} {
		want := diff.State{Kind: s.Kind}
		switch s.Kind {
		case vfs.Other, vfs.DirKind:
		case vfs.FileKind:
			want.Version, want.Exec = s.Version, s.Exec
			if s.Version.IsZero() {
				return vfs.Errorf(vfs.Invalid, "the state of a file needs its version")
			}
		case vfs.LinkKind:
			want.Target = s.Target
			if err := vfs.CheckTarget(s.Target); err != nil {
				return err
			}
		default:
			return vfs.Errorf(vfs.Invalid, "a batch may hold only files, directories and links")
		}
		if s != want {
			return vfs.Errorf(vfs.Invalid, "a state has a field that its kind does not have")
		}
	}
	return nil
}

package batch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// verb is what a step does at its path.
type verb uint8

const (
	makeRoom verb = iota // makes room for another kind of node
	makeDir
	putFile
	makeLink
	remove
)

func (v verb) String() string {
	return [...]string{"clear", "mkdir", "put", "link", "remove"}[v]
}

// step is one visible change.
type step struct {
	verb   verb
	change diff.Change
}

// changesKind reports whether the node must be removed before another can take its place.
func changesKind(c *diff.Change) bool {
	return !c.Was.Absent() && !c.Is.Absent() && (c.Was.Kind != c.Is.Kind || c.Was.Kind == vfs.LinkKind)
}

// steps orders changes, which are in tree order, so that they can be made one after the
// other. First come removals that make room, deepest first, then directories, parents
// first, then files, then links, and last all other removals, deepest first.
func steps(changes []diff.Change) []step {
	var room, dirs, files, links, gone []step
	turned := "" // the last directory that becomes something else
	for _, c := range changes {
		inTurned := turned != "" && strings.HasPrefix(c.Path, turned+"/")
		switch {
		case changesKind(&c):
			room = append(room, step{makeRoom, c})
			if c.Was.Kind == vfs.DirKind {
				turned = c.Path
			}
		case c.Is.Absent() && inTurned:
			room = append(room, step{remove, c})
		case c.Is.Absent():
			gone = append(gone, step{remove, c})
		}
		switch c.Is.Kind {
		case vfs.DirKind:
			dirs = append(dirs, step{makeDir, c})
		case vfs.FileKind:
			files = append(files, step{putFile, c})
		case vfs.LinkKind:
			links = append(links, step{makeLink, c})
		}
	}
	slices.Reverse(room)
	slices.Reverse(gone)
	return slices.Concat(room, dirs, files, links, gone)
}

// changesOf returns the changes of steps, in tree order.
func changesOf(steps []step) []diff.Change {
	var all []diff.Change
	for _, s := range steps {
		all = append(all, s.change)
	}
	slices.SortFunc(all, func(a, b diff.Change) int { return diff.ComparePaths(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b diff.Change) bool { return a.Path == b.Path })
}

// ops returns the steps as guards see them.
func ops(steps []step) []membrane.Op {
	kinds := [...]membrane.OpKind{membrane.OpRemove, membrane.OpMkdir, membrane.OpReplace, membrane.OpSymlink, membrane.OpRemove}
	all := make([]membrane.Op, len(steps))
	for i, s := range steps {
		all[i] = membrane.Op{Kind: kinds[s.verb], Path: s.change.Path}
	}
	return all
}

// runner makes the steps of a batch.
type runner struct {
	entry *entry
	at    *diff.Cursor
	o     Options
}

// run makes all steps and stops at the first that fails. tried is how many of them may
// have changed something.
func (w *runner) run(ctx context.Context, steps []step) (tried int, err error) {
	for i, s := range steps {
		from, _ := s.states()
		is, _, err := look(ctx, w.at, s.change.Path)
		if err == nil && is != from {
			err = &diff.Conflicts{Paths: []diff.Conflict{s.change.Conflict(is)}}
		}
		if err != nil {
			return i, s.failed(err)
		}
		switch err := w.make(ctx, s, is); {
		case isForeign(err):
			return i, s.failed(err)
		case err != nil: // it may have been made without an answer
			return i + 1, s.failed(err)
		}
		w.made(s, i+1, len(steps))
	}
	return len(steps), nil
}

// restore makes the steps that are not made yet. It skips those at which somebody else
// changed something since. It continues after an error, and returns the first ones at the end.
func (w *runner) restore(ctx context.Context, steps []step) (left []diff.Conflict, err error) {
	leave := map[string]bool{}
	var errs []error
	for i, s := range steps {
		path := s.change.Path
		if leave[path] {
			continue
		}
		from, to := s.states()
		is, _, failed := look(ctx, w.at, path)
		if failed == nil && is == from && is != to {
			failed = w.make(ctx, s, is)
			if isForeign(failed) {
				failed = nil
				leave[path] = true
			}
		} else if failed == nil && is != to && is != s.change.Is {
			leave[path] = true
		}
		if failed != nil && len(errs) < maxFailed {
			errs = append(errs, s.failed(failed))
		}
		if leave[path] {
			left = append(left, s.change.Conflict(is))
		}
		w.made(s, i+1, len(steps))
	}
	slices.SortFunc(left, func(a, b diff.Conflict) int { return diff.ComparePaths(a.Path, b.Path) })
	return left, errors.Join(errs...)
}

// maxFailed is how many errors restore returns.
const maxFailed = 10

func (w *runner) made(s step, done, total int) {
	w.o.step(s.verb.String() + " " + s.change.Path)
	if w.o.Progress != nil {
		w.o.Progress(done, total)
	}
}

// states returns the state that a step expects at its path and the state that it leaves.
func (s *step) states() (from, to diff.State) {
	switch {
	case s.verb == makeRoom:
		return s.change.Was, diff.State{}
	case changesKind(&s.change):
		return diff.State{}, s.change.Is
	}
	return s.change.Was, s.change.Is
}

// failed returns the error of a step that could not be made.
func (s *step) failed(err error) error {
	if isForeign(err) {
		c := s.change.Conflict(diff.State{Kind: diff.Foreign})
		c.Why = "it was changed meanwhile"
		return &diff.Conflicts{Paths: []diff.Conflict{c}}
	}
	if _, ok := err.(*diff.Conflicts); ok {
		return err
	}
	return vfs.At(s.change.Path, err)
}

// isForeign reports an error which says that somebody else changed the same place.
func isForeign(err error) bool {
	if _, ok := err.(*diff.Conflicts); ok {
		return false
	}
	switch vfs.CodeOf(err) {
	case vfs.Conflict, vfs.Exists, vfs.NotEmpty, vfs.NotFound, vfs.NotDir, vfs.IsDir, vfs.NotRegular, vfs.Stale:
		return true
	}
	return false
}

// make makes one step. is is the state it starts from.
func (w *runner) make(ctx context.Context, s step, is diff.State) error {
	parent, name := diff.Split(s.change.Path)
	d, err := w.at.Dir(ctx, parent)
	if err != nil {
		return err
	}
	switch s.verb {
	case makeDir:
		made, err := d.Mkdir(ctx, name)
		if err != nil {
			return err
		}
		return made.Close()
	case putFile:
		return w.put(ctx, d, name, s.change.Is, is)
	case makeLink:
		return vfs.Symlink(ctx, d, name, s.change.Is.Target)
	}
	return d.Remove(ctx, name, vfs.If{Is: is.Version})
}

// put puts a file in place of is, which is a file or nothing. A store without
// executable bits leaves the bit as it is.
func (w *runner) put(ctx context.Context, d vfs.Dir, name string, becomes, is diff.State) error {
	r, err := w.entry.content(ctx, becomes.Version)
	if err != nil {
		return err
	}
	c := vfs.If{Absent: is.Absent(), Is: is.Version}
	_, err = vfs.Install(ctx, d, name, r, becomes.Exec, c)
	if vfs.CodeOf(err) == vfs.Unsupported && is.Exec == becomes.Exec {
		if r, err = w.entry.content(ctx, becomes.Version); err == nil {
			_, err = d.Replace(ctx, name, r, c)
		}
	}
	return err
}

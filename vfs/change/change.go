// Package change makes changes of many paths for those who hold a directory: all of them or none.
//
// Steps are planned one after the other, each upon what those before it leave. What comes out is one batch; see
// [capd/vfs/batch]: it stages all contents before it asks guards and enters gates, and its journal takes back what a process that dies has begun.
// A step follows no link.
package change

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/step"
)

// MaxBytes is the most contents that a change writes, moves, overwrites and removes, in bytes.
const MaxBytes = 64 << 20

// Options say how a change is made.
type Options struct {
	DryRun bool // only say what would be wrong, and what would come of it
	Read   bool // whoever asks has read what the conditions are on, so no rule asks about that again
	Whole  bool // whoever asks knows nothing of steps, so an error names the path alone
}

// Made is what becomes of one path.
type Made struct {
	Path    string
	Was, Is diff.State
}

// Do makes steps in d, all or none, and returns what has become of each path, in the order in which steps name them, without
// those that are as they were. An error names the step and its path. Do answers what the same calls on d would, limit beyond the
// bounds, conflict if somebody else changes a path meanwhile, and unsupported where the host keeps no journal.
func Do(ctx context.Context, d vfs.Dir, steps []step.Step, o Options) ([]Made, error) {
	if len(steps) > step.Max {
		return nil, vfs.Errorf(vfs.Limit, "a change has at most %d steps; make several", step.Max)
	}
	rights, ops := needed(steps)
	wide, end, err := membrane.Widened(ctx, d, append(rights, ops...))
	if err != nil {
		return nil, err
	}
	defer end()
	journal, name := membrane.JournalOf(wide)
	if journal == nil {
		return nil, vfs.Errorf(vfs.Unsupported, "this host keeps no journal for changes of several paths; make them one by one")
	}
	p := newPlanner(ctx, wide)
	if !o.Read {
		p.own = d
	}
	p.held = membrane.CallBytesOf(ctx)
	defer p.held.End()
	defer p.at.Close()
	for i := range steps { // as a capability that may not change anything answers
		if _, err := vfs.SplitPath(steps[i].Path); err != nil {
			break // the step says so
		}
		if err := p.changeable(steps[i].Path); err != nil {
			return nil, vfs.At(steps[i].Path, err)
		}
	}
	for i := range steps {
		if err := p.step(&steps[i]); err != nil {
			if o.Whole {
				return nil, vfs.At(steps[i].Path, err)
			}
			return nil, which(i, len(steps), steps[i].Path, err)
		}
	}
	made, changes, parts, err := p.result()
	if err != nil || o.DryRun || len(changes) == 0 {
		return made, err
	}
	p.at.Close() // what follows may wait for a human
	err = membrane.Together(ctx, wide, ops, parts, func(ctx context.Context) error {
		_, err := batch.Run(ctx, journal, wide, changes, batch.Options{Name: name})
		return err
	})
	if err != nil {
		return nil, told(err)
	}
	return made, nil
}

// told returns an error of a batch for a guest: of the paths that were changed by somebody else, the first.
func told(err error) error {
	if u, ok := errors.AsType[*batch.Unfinished](err); ok {
		return unfinished(u)
	}
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok || len(c.Paths) == 0 {
		return err
	}
	return vfs.At(c.Paths[0].Path, vfs.Errorf(vfs.Conflict, "somebody else changes it at the same time: %s; nothing was changed: look at it and try again", c.Paths[0].Why))
}

// unfinished returns the error for a change that failed, and was not wholly taken back.
func unfinished(u *batch.Unfinished) error {
	if u.Err != nil {
		return &vfs.Error{Code: vfs.Internal, Msg: "the change failed, and not all was taken back: " + listed(failedAt(u.Err)) + "; the host takes it back when it starts again", Cause: u.Err}
	}
	paths := make([]string, len(u.Left))
	for i, c := range u.Left {
		paths[i] = c.Path
	}
	return vfs.Errorf(vfs.Conflict, "the change failed, and somebody else has meanwhile changed what it made: %s; that stays, and all else is as it was", listed(paths))
}

// failedAt returns the paths of errors that are joined.
func failedAt(err error) (paths []string) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			paths = append(paths, failedAt(err)...)
		}
		return paths
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" {
		paths = []string{e.Path}
	}
	return paths
}

// listed returns the first of paths as a text.
func listed(paths []string) string {
	const most = 10
	var all strings.Builder
	for i, path := range paths {
		switch {
		case i == most:
			return all.String() + ", and more"
		case i > 0:
			all.WriteString(", ")
		}
		all.WriteString(vfs.Printable(path))
	}
	return all.String()
}

// needed returns the operations that steps are, and the reads that their conditions are.
func needed(steps []step.Step) (reads, ops []membrane.Op) {
	kinds := [...]membrane.OpKind{membrane.OpReplace, membrane.OpRemove, membrane.OpRename, membrane.OpMkdir, membrane.OpReplace}
	for _, s := range steps {
		op := membrane.Op{Kind: kinds[s.Verb], Path: s.Path}
		if s.Verb == step.Move {
			op.To = s.To
		}
		ops = append(ops, op)
		if s.Exec != nil {
			ops = append(ops, membrane.Op{Kind: membrane.OpAttributes, Path: s.Path})
		}
		if !s.If.Is.IsZero() || s.Verb == step.Edit || s.Verb == step.Put && !s.If.Absent { // what stays as it is is not written, which tells
			reads = append(reads, membrane.Op{Kind: membrane.OpRead, Path: s.Path})
		}
		if !s.IfTarget.Is.IsZero() {
			reads = append(reads, membrane.Op{Kind: membrane.OpRead, Path: s.To})
		}
	}
	return reads, ops
}

// Needs returns what steps need of the directory that they are made in.
func Needs(steps []step.Step) (need membrane.Need) {
	reads, ops := needed(steps)
	for _, op := range append(reads, ops...) {
		need |= membrane.To(op.Kind)
	}
	return need
}

// which returns err as that of one step.
func which(i, n int, path string, err error) error {
	e, ok := vfs.At(path, err).(*vfs.Error)
	if !ok {
		return err
	}
	e.Msg = fmt.Sprintf("step %d of %d: %s; nothing was changed", i+1, n, e.Msg)
	return e
}

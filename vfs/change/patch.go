package change

import (
	"context"
	"crypto/sha256"
	"io"
	"unicode/utf8"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/patch"
	"capd/vfs/step"
	"capd/vfs/unified"
)

// MaxPatched is the size of the largest file that is patched, in bytes.
const MaxPatched = 8 << 20

// maxDiffs bounds, in bytes, the diffs that a Patch answers.
const maxDiffs = 2 << 20

// Patch applies text, a patch in one of the formats of package [patch], to d, or its reverse. The files are those that it has
// read; otherwise the answer is conflict.
func Patch(ctx context.Context, d vfs.Dir, text []byte, reverse bool, o Options) ([]patch.Result, error) {
	p, err := patch.Parse(text)
	if err == nil && reverse {
		p, err = p.Reverse()
	}
	if err != nil {
		return nil, err
	}
	r := &reading{ctx: ctx, at: diff.NewCursor(d), held: membrane.CallBytesOf(ctx)}
	defer r.held.End()
	defer r.at.Close()
	changes, err := p.Apply(r.read)
	if err != nil {
		return nil, err
	}
	steps, err := r.steps(changes)
	if err != nil {
		return nil, err
	}
	r.at.Close() // what follows may wait for a human
	o.Read = true
	if _, err := Do(ctx, d, steps, o); err != nil {
		return nil, err
	}
	return results(changes), nil
}

// reading reads what a patch changes.
type reading struct {
	ctx  context.Context
	at   *diff.Cursor
	held *membrane.CallBytes
}

// read implements what [patch.Patch.Apply] reads with.
func (r *reading) read(path string) (*patch.Content, error) {
	if err := meter.Yield(r.ctx); err != nil {
		return nil, err
	}
	n, err := r.at.Open(r.ctx, path)
	switch vfs.CodeOf(err) {
	case "":
	case vfs.NotFound, vfs.NotDir:
		return nil, nil
	default:
		return nil, err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := vfs.Open(r.ctx, f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Size() > MaxPatched {
		return nil, vfs.Errorf(vfs.TooLarge, "it is %d bytes, more than the %d that can be patched", c.Size(), MaxPatched)
	}
	if err := r.held.Take(2 * c.Size()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return nil, err
	}
	info, err := execOf(r.ctx, f)
	return &patch.Content{Data: data, Exec: info}, err
}

// execOf reports whether f is executable. Without the right to know, it is taken for one that is not; it stays as it is.
func execOf(ctx context.Context, f vfs.File) (bool, error) {
	info, err := f.Stat(ctx)
	if vfs.CodeOf(err) == vfs.Denied {
		return false, nil
	}
	return info.Exec, err
}

// steps returns what makes changes: first the directories that are missing.
func (r *reading) steps(changes []patch.Change) (steps []step.Step, err error) {
	made := map[string]bool{"": true}
	for _, c := range changes {
		if c.Is != nil && c.Was == nil {
			dir, _ := diff.Split(c.Path)
			more, err := r.missing(dir, made)
			if err != nil {
				return nil, err
			}
			steps = append(steps, more...)
		}
	}
	for _, c := range changes {
		s := step.Step{Path: c.Path, If: vfs.If{Absent: true}}
		if c.Was != nil {
			s.If = vfs.If{Is: sha256.Sum256(c.Was.Data)}
		}
		if c.Is == nil {
			s.Verb = step.Remove
		} else {
			s.Data = c.Is.Data
			if c.Was == nil && c.Is.Exec || c.Was != nil && c.Was.Exec != c.Is.Exec {
				s.Exec = &c.Is.Exec
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// missing returns what makes the directory at path and those above it, as far as they are missing.
func (r *reading) missing(path string, made map[string]bool) (steps []step.Step, err error) {
	if made[path] {
		return nil, nil
	}
	made[path] = true
	n, err := r.at.Open(r.ctx, path)
	if err == nil {
		n.Close() // if it is no directory, the step says so
		return nil, nil
	}
	if vfs.CodeOf(err) != vfs.NotFound {
		return nil, vfs.At(path, err)
	}
	dir, _ := diff.Split(path)
	if steps, err = r.missing(dir, made); err != nil {
		return nil, err
	}
	return append(steps, step.Step{Verb: step.Mkdir, Path: path}), nil
}

// results returns what changes have made.
func results(changes []patch.Change) []patch.Result {
	all := make([]patch.Result, 0, len(changes))
	bytes := 0
	for _, c := range changes {
		r := patch.Result{Path: c.Path, From: c.From}
		from, to := side(c.Path, c.Was), side(c.Path, c.Is)
		if c.Was != nil {
			r.Was = sha256.Sum256(c.Was.Data)
		}
		if c.Is != nil {
			r.Version = sha256.Sum256(c.Is.Data)
		}
		if utf8.Valid(from.Data) && utf8.Valid(to.Data) && bytes < maxDiffs {
			text, _ := unified.Format(from, to, unified.InPlace, false)
			if bytes += len(text); bytes < maxDiffs {
				r.Diff, r.Changed = text, patch.Changed(text)
			}
		}
		all = append(all, r)
	}
	return all
}

func side(path string, c *patch.Content) unified.Side {
	s := unified.Side{Path: path}
	switch {
	case c == nil:
		return s
	case c.Exec:
		s.Mode = unified.Executable
	default:
		s.Mode = unified.File
	}
	s.Data = c.Data
	return s
}

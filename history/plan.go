package history

import (
	"cmp"
	"context"
	"strings"

	"capd/vfs"
)

// Plan is what undoes some changes: inverse changes, in order.
type Plan struct {
	Steps    []*Step
	Refused  bool // a step has an error
	journal  *Journal
	dir      vfs.Dir
	base     string // where dir is, from the top of the host's tree
	readable func(path string) error
}

// Step is one inverse change. Paths are from the directory of the plan.
type Step struct {
	Op   string // rename, attributes, or restore
	Path string
	To   string // of a rename
	Err  error  // why it cannot be made

	row  *Row
	is   State // at Path now
	want State // there afterwards
}

// Restore is the operation of a Step that makes a place what it was.
const Restore = "restore"

// Show returns what the step is called: the operation that it amounts to.
func (s *Step) Show() string {
	if s.Op != Restore {
		return s.Op
	}
	return Named(s.is, s.want)
}

// Named returns the operation that a change of a place from is to want amounts to.
func Named(is, want State) string {
	switch {
	case want.Absent():
		return "remove"
	case want.Kind == vfs.DirKind:
		return "mkdir"
	case want.Kind == vfs.LinkKind:
		return "symlink"
	case is.Absent():
		return "create"
	}
	return "replace"
}

// Plan works out what undoes rows, the newest first, below d, which is at base of the host's tree. Nothing is changed. readable answers
// why a path below d, and its old content, cannot be shown to whoever asks.
func (j *Journal) Plan(ctx context.Context, d vfs.Dir, base string, rows []*Row, readable func(path string) error) (*Plan, error) {
	p := &Plan{journal: j, dir: d, base: base, readable: readable}
	for _, r := range rows {
		for _, s := range inverse(r) {
			ok, err := p.shown(&s.Path, base)
			if s.To != "" {
				in, why := p.shown(&s.To, base)
				ok, err = ok && in, cmp.Or(err, why)
			}
			switch {
			case err != nil:
				s.Err = err
			case !ok || r.Outside:
				s.Err = vfs.Errorf(vfs.Denied, "this change reached outside of this directory; undo it where all of it is")
			case r.whole():
				s.Err = vfs.Errorf(vfs.Unsupported, "an older host made this patch, and kept nothing; apply it in reverse")
			case r.Op == copied:
				s.Err = vfs.Errorf(vfs.Unsupported, "this copied directory is too large to be taken back; remove it")
			case s.Op == Restore && s.want.Kind == vfs.FileKind && r.Lost():
				s.Err = errLost
			}
			if err := p.add(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range p.Steps {
		p.Refused = p.Refused || s.Err != nil
	}
	return p, nil
}

// inverse returns what undoes r.
func inverse(r *Row) []*Step {
	switch {
	case r.Op == attributes:
		return []*Step{{Op: attributes, Path: r.Path, row: r, is: r.Now, want: r.Was}}
	case r.To != "":
		back := []*Step{{Op: "rename", Path: r.To, To: r.Path, row: r, is: r.Now}}
		if !r.Was.Absent() {
			back = append(back, &Step{Op: Restore, Path: r.To, row: r, want: r.Was})
		}
		return back
	}
	return []*Step{{Op: Restore, Path: r.Path, row: r, is: r.Now, want: r.Was}}
}

// shown makes *path begin at base. If it is not below base, or what is there cannot be shown to whoever asks, *path becomes "".
func (p *Plan) shown(path *string, base string) (ok bool, err error) {
	if *path, ok = below(*path, base); ok {
		if err = p.readable(*path); vfs.CodeOf(err) == vfs.AskDenied {
			err = nil // it is put back, and shown to nobody
		}
	}
	if !ok || err != nil {
		*path = ""
	}
	if vfs.CodeOf(err) == vfs.Denied {
		return false, nil
	}
	return ok, err
}

// below returns path from base on, and whether it is there.
func below(path, base string) (string, bool) {
	if base == "" {
		return path, true
	}
	return strings.CutPrefix(path, base+"/")
}

// add checks that what is at the places of s is what its change left, and adds it. It becomes part of the last step if that is about the same
// content.
func (p *Plan) add(ctx context.Context, s *Step) error {
	if s.Err != nil {
		p.Steps = append(p.Steps, s)
		return nil
	}
	is, at, err := p.look(ctx, s.Path, len(p.Steps))
	if err != nil {
		return err
	}
	if s.Err = p.matches(ctx, s, is, at); s.Err == nil && s.To != "" {
		there, _, err := p.look(ctx, s.To, len(p.Steps))
		if err != nil {
			return err
		}
		if !there.Absent() {
			s.Err = vfs.Errorf(vfs.Conflict, "something else is there now")
		}
	}
	if i := p.last(s.Path); s.Err == nil && s.Op == Restore && i >= 0 {
		before := p.Steps[i]
		before.want, before.row = s.want, s.row
		return nil
	}
	s.is = is
	p.Steps = append(p.Steps, s)
	return nil
}

// last returns the step that restored path, if no step after it is about anything above, at or below path, and if both are about a file or
// about nothing. It returns -1 for none.
func (p *Plan) last(path string) int {
	for i := len(p.Steps) - 1; i >= 0; i-- {
		s := p.Steps[i]
		if s.Op == Restore && s.Path == path && s.Err == nil {
			return i
		}
		if related(s.Path, path) || s.To != "" && related(s.To, path) {
			return -1
		}
	}
	return -1
}

func related(a, b string) bool { return within(a, b) || within(b, a) }

// within reports whether path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// look returns what will be at path when the first n steps were made, and at which path that is now.
func (p *Plan) look(ctx context.Context, path string, n int) (is State, at string, err error) {
	for i := n - 1; i >= 0; i-- {
		s := p.Steps[i]
		switch {
		case s.Err != nil:
		case s.Op == "rename" && within(path, s.To):
			path = s.Path + path[len(s.To):]
		case s.Op == "rename" && within(path, s.Path):
			return State{}, path, nil
		case s.Op == Restore && path == s.Path:
			is, err = p.restored(ctx, s)
			return is, path, err
		case s.Op == Restore && within(path, s.Path):
			return State{}, path, nil
		case s.Op == attributes && path == s.Path:
			is, at, err = p.look(ctx, path, i)
			is.Exec, is.Modified = s.want.Exec, s.want.Modified
			return is, at, err
		}
	}
	is, err = Look(ctx, p.dir, path)
	return is, path, err
}

// restored returns what is there after s.
func (p *Plan) restored(ctx context.Context, s *Step) (State, error) {
	if s.want.Kind == vfs.FileKind {
		v, err := p.journal.VersionOf(ctx, s.row)
		if err != nil {
			return State{}, err
		}
		s.want.Version = v.String()
	}
	return s.want, nil
}

// Look returns what is at path below d, with the version of a file. Of links on the way none is followed.
func Look(ctx context.Context, d vfs.Dir, path string) (s State, err error) {
	dir, name, release, err := parent(ctx, d, path)
	if err == nil {
		defer release()
		var n vfs.Node
		if n, err = dir.Lookup(ctx, name); err == nil {
			defer n.Close()
			return StateOf(ctx, n, true)
		}
	}
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.NotDir:
		return s, nil
	}
	return s, vfs.At(path, err)
}

// StateOf returns what n is. Where something cannot be known it is left out.
func StateOf(ctx context.Context, n vfs.Node, withVersion bool) (s State, err error) {
	s.Kind = vfs.KindOf(n)
	info, err := n.Stat(ctx)
	if err != nil && (!withVersion || vfs.CodeOf(err) != vfs.Denied) { // without the right to metadata the version alone tells
		return s, err
	}
	s.Modified, err = info.ModifiedMs, nil
	switch n := n.(type) {
	case vfs.File:
		s.Size, s.Exec = info.Size, info.Exec
		if withVersion {
			v, err := vfs.VersionOf(ctx, n)
			if err != nil {
				return s, err
			}
			s.Version = v.String()
		}
	case vfs.Link:
		if s.Target, err = n.Target(ctx); vfs.CodeOf(err) == vfs.Denied && withVersion {
			err = nil
		}
	case vfs.Dir:
		s.Modified = 0
		if s.Identity, err = vfs.Identity(ctx, n); vfs.CodeOf(err) == vfs.Unsupported {
			err = nil
		}
	}
	return s, err
}

// parent opens the directory that path lies in. It follows no link.
func parent(ctx context.Context, d vfs.Dir, path string) (dir vfs.Dir, name string, release func(), err error) {
	up, name, nested := cutLast(path)
	if !nested {
		return d, name, func() {}, nil
	}
	var open []vfs.Dir
	release = func() {
		for _, d := range open {
			d.Close()
		}
	}
	for step := range strings.SplitSeq(up, "/") {
		if d, err = vfs.LookupAs[vfs.Dir](ctx, d, step, vfs.NotDir); err != nil {
			release()
			return nil, "", nil, err
		}
		open = append(open, d)
	}
	return d, name, release, nil
}

func cutLast(path string) (up, name string, nested bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// matches answers conflict unless is, which is at the path at now, is what the change of s left.
func (p *Plan) matches(ctx context.Context, s *Step, is State, at string) error {
	left := s.is
	switch {
	case left.Absent() && is.Absent():
		return nil
	case is.Absent():
		return vfs.Errorf(vfs.Conflict, "it is not there any more")
	case left.Absent():
		return vfs.Errorf(vfs.Conflict, "something else is there now")
	case left.Kind != is.Kind:
		return vfs.Errorf(vfs.Conflict, "it is a %v now", is.Kind)
	case left.Kind == vfs.LinkKind && left.Target != is.Target:
		return errChanged
	case left.Kind == vfs.DirKind && cmp.Or(left.Identity, is.Identity) != cmp.Or(is.Identity, left.Identity) && !p.remade(ctx, s, is):
		return vfs.Errorf(vfs.Conflict, "it is another directory now")
	case left.Kind != vfs.FileKind:
		return nil
	case s.Op == attributes && left.Exec == is.Exec && left.Modified == is.Modified:
		return nil
	case s.Op != attributes && left.Version != "" && left.Version == is.Version:
		return nil
	case left.Version == "" && s.Op != attributes && p.brought(ctx, s, is, vfs.Join(p.base, at)):
		return nil
	}
	return errChanged
}

// remade reports whether the directory is stands for the one that the change of s left: each time that it was removed, an undo made it again.
func (p *Plan) remade(ctx context.Context, s *Step, is State) bool {
	place, id, identity := s.row.Place(), s.row.ID, s.is.Identity
	for {
		r, err := p.journal.next(ctx, place, id)
		switch {
		case err != nil:
			return false
		case r == nil:
			return identity == is.Identity
		case r.To != "" && within(place, r.Path):
			place = r.To + place[len(r.Path):]
		case r.Now.Kind == vfs.DirKind && r.Undoes:
			identity = r.Now.Identity
		case r.Now.Kind == vfs.DirKind:
			return false
		}
		id = r.ID
	}
}

var errChanged = vfs.Errorf(vfs.Conflict, "it was changed since")

// brought reports whether is is what the change of s left, as later changes show. What it left may not be known by its version, or not at all,
// and an undo of a later change brings it back at another time. So it is followed to the change that displaced it, or to where it is now. Only
// if that is the path at, its size and time tell: many files can be written within one tick of the clock.
func (p *Plan) brought(ctx context.Context, s *Step, is State, at string) bool {
	place, id, left := s.row.Place(), s.row.ID, s.is
	for {
		r, err := p.journal.next(ctx, place, id)
		switch {
		case err != nil:
			return false
		case r == nil && place != at:
			return false
		case r == nil && left.Modified != 0:
			return is.Size == left.Size && is.Modified == left.Modified
		case r == nil:
			return is.Modified != 0 && is.Modified <= left.Until
		}
		id = r.ID
		was := r.Was
		moved := r.To != "" && within(place, r.Path)
		if moved {
			was = r.Now
		}
		switch known := left.Modified != 0; {
		case moved && place != r.Path:
			place = r.To + place[len(r.Path):]
			continue
		case was.Kind != vfs.FileKind, known && (was.Size != left.Size || was.Modified != left.Modified):
			return false
		case moved:
			place, left = r.To, was
			continue
		case r.Op == attributes:
			left = was
			if r.Done {
				left.Modified = r.Now.Modified
			}
			continue
		}
		v, err := p.journal.VersionOf(ctx, r)
		return err == nil && v.String() == is.Version
	}
}

package change

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/step"
)

// planner finds out what steps make of each path.
type planner struct {
	ctx   context.Context
	root  vfs.Dir
	own   vfs.Dir // as whoever asks sees it; nil if that has read what the conditions are on
	held  *membrane.CallBytes
	at    *diff.Cursor
	nodes map[string]*node
	order []string // of the paths, as steps name them first
	bytes int64    // that are read and written
}

// node is what is at a path.
type node struct {
	was, is diff.State
	size    int64                                        // of is, if that is a file
	open    func(context.Context) (io.ReadCloser, error) // its content
	wasSize int64
}

func newPlanner(ctx context.Context, root vfs.Dir) *planner {
	return &planner{ctx: ctx, root: root, at: diff.NewCursor(root), nodes: map[string]*node{}}
}

// node returns what is at path, as far as the steps have come.
func (p *planner) node(path string) (*node, error) {
	if n := p.nodes[path]; n != nil {
		return n, nil
	}
	if len(p.nodes) > 4*step.Max {
		return nil, vfs.Errorf(vfs.Limit, "a change concerns at most %d paths; make several", step.Max)
	}
	n := &node{}
	at, err := p.at.Open(p.ctx, path)
	switch vfs.CodeOf(err) {
	case "":
		defer at.Close()
		if n.was, n.wasSize, err = stateOf(p.ctx, at); err != nil {
			return nil, err
		}
	case vfs.NotFound, vfs.NotDir:
	default:
		return nil, err
	}
	n.is, n.size = n.was, n.wasSize
	n.open = func(ctx context.Context) (io.ReadCloser, error) { return p.read(ctx, path) }
	p.nodes[path] = n
	p.order = append(p.order, path)
	return n, nil
}

func stateOf(ctx context.Context, n vfs.Node) (s diff.State, size int64, err error) {
	if f, ok := n.(vfs.File); ok {
		info, err := f.Stat(ctx)
		if err != nil {
			return s, 0, err
		}
		size = info.Size
	}
	s, err = diff.StateOf(ctx, n)
	return s, size, err
}

// read opens the content that was at path.
func (p *planner) read(ctx context.Context, path string) (io.ReadCloser, error) {
	n, err := vfs.WalkLink(ctx, p.root, path)
	if err != nil {
		return nil, err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return nil, err
	}
	return diff.ReadFile(ctx, f)
}

// step adds one step.
func (p *planner) step(s *step.Step) error {
	if _, err := vfs.SplitPath(s.Path); err != nil {
		return err
	}
	n, err := p.node(s.Path)
	if err != nil {
		return err
	}
	if err := p.compares(n, s); err != nil {
		return err
	}
	switch s.Verb {
	case step.Put:
		return p.put(n, s)
	case step.Remove:
		return p.remove(n, s.Path)
	case step.Move:
		return p.move(n, s)
	case step.Edit:
		return p.edit(n, s)
	}
	if !n.is.Absent() {
		return vfs.Exists
	}
	n.is = diff.State{Kind: vfs.DirKind}
	return p.placeable(s.Path, n)
}

// meets answers conflict unless c holds for what is there.
func meets(is diff.State, c vfs.If) error {
	switch {
	case c.Absent && !is.Absent():
		return vfs.Errorf(vfs.Conflict, "something is there")
	case !c.Is.IsZero() && is.Absent():
		return vfs.Errorf(vfs.Conflict, "the file is gone")
	case !c.Is.IsZero() && is.Version != c.Is:
		return vfs.Errorf(vfs.Conflict, "the file was changed; read it again")
	}
	return nil
}

// placeable checks that something may be at path: in a directory, and with a name that may be made.
func (p *planner) placeable(path string, n *node) error {
	dir, name := diff.Split(path)
	if n.was.Absent() {
		if err := vfs.CheckNewName(name); err != nil {
			return err
		}
	}
	if dir == "" {
		return nil
	}
	in, err := p.node(dir)
	switch {
	case err != nil:
		return err
	case in.is.Absent():
		return vfs.Errorf(vfs.NotFound, "its directory is not there; make that first, with a step before this one")
	case in.is.Kind != vfs.DirKind:
		return vfs.Errorf(vfs.NotDir, "what it would be in is no directory; a change follows no link")
	}
	return nil
}

func (p *planner) put(n *node, s *step.Step) error {
	switch n.is.Kind {
	case vfs.DirKind:
		return vfs.IsDir
	case vfs.LinkKind:
		return vfs.Errorf(vfs.NotRegular, "a link is there, and a change follows none; name what it leads to")
	}
	exec := n.is.Exec
	if s.Exec != nil {
		exec = *s.Exec
	}
	from := s.Source
	if from == nil {
		data := s.Data
		from = &step.Source{Version: sha256.Sum256(data), Size: int64(len(data)), Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}}
	}
	n.is = diff.State{Kind: vfs.FileKind, Version: from.Version, Exec: exec}
	s.Left, n.size, n.open = from.Version, from.Size, from.Open
	return p.placeable(s.Path, n)
}

func (p *planner) remove(n *node, path string) error {
	switch n.is.Kind {
	case vfs.Other:
		return vfs.NotFound
	case vfs.DirKind:
		below, err := p.below(path)
		if err != nil {
			return err
		}
		if len(below) > 0 {
			return vfs.NotEmpty
		}
	}
	n.is = diff.State{}
	return nil
}

// below returns the paths of what the directory at path holds, parents first, as far as the steps have come.
func (p *planner) below(path string) (all []string, err error) {
	names := map[string]bool{}
	for at, n := range p.nodes {
		if rest, ok := strings.CutPrefix(at, path+"/"); ok && !n.is.Absent() && !strings.Contains(rest, "/") {
			names[rest] = true
		}
	}
	if p.nodes[path] != nil && p.nodes[path].was.Kind == vfs.DirKind {
		d, err := p.at.Dir(p.ctx, path)
		if err != nil {
			return nil, err
		}
		if some, err := membrane.Conceals(p.ctx, d); err != nil || some {
			return nil, firstOf(err, vfs.Errorf(vfs.Denied, "policy decides about what it may hold"))
		}
		for e, err := range d.List(p.ctx) {
			if err != nil {
				return nil, err
			}
			names[e.Name] = true
			if len(names) > step.Max {
				return nil, vfs.Errorf(vfs.Limit, "a change concerns at most %d paths; move it by itself", step.Max)
			}
		}
	}
	for name := range names {
		at := vfs.Join(path, name)
		n, err := p.node(at)
		if err != nil {
			return nil, vfs.At(at, err)
		}
		if n.is.Absent() {
			continue
		}
		all = append(all, at)
		if n.is.Kind == vfs.DirKind {
			more, err := p.below(at)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	slices.SortFunc(all, diff.ComparePaths)
	return all, nil
}

func firstOf(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (p *planner) move(n *node, s *step.Step) error {
	if _, err := vfs.SplitPath(s.To); err != nil {
		return vfs.At(s.To, err)
	}
	switch {
	case n.is.Absent():
		return vfs.NotFound
	case s.To == s.Path:
		return nil
	case strings.HasPrefix(s.To, s.Path+"/"):
		return vfs.Errorf(vfs.Invalid, "a directory cannot be moved into itself")
	}
	to, err := p.node(s.To)
	if err != nil {
		return err
	}
	over := to.is.Kind == vfs.FileKind && n.is.Kind == vfs.FileKind && to.is.Version == s.IfTarget.Is
	if !to.is.Absent() && !over {
		if !s.IfTarget.Is.IsZero() {
			return vfs.Errorf(vfs.Conflict, "what is at the new path was changed; look at it again")
		}
		return vfs.Errorf(vfs.Exists, "something is at the new path")
	}
	var below []string
	if n.is.Kind == vfs.DirKind {
		if below, err = p.below(s.Path); err != nil {
			return err
		}
	}
	for _, from := range append([]string{s.Path}, below...) {
		at := s.To + strings.TrimPrefix(from, s.Path)
		to, err := p.node(at)
		if err != nil {
			return err
		}
		n := p.nodes[from]
		to.is, to.size, to.open = n.is, n.size, n.open
		n.is = diff.State{}
		if err := p.placeable(at, to); err != nil {
			return err
		}
	}
	return nil
}

// changeable answers readOnly if what path is in never changes. A change that is only tried would not find out otherwise.
func (p *planner) changeable(path string) error {
	dir, _ := diff.Split(path)
	d := p.root
	for dir != "" { // up to what is there already
		at, err := p.at.Dir(p.ctx, dir)
		if err == nil {
			d = at
			break
		}
		dir, _ = diff.Split(dir)
	}
	if vfs.IsImmutable(d) {
		return vfs.ReadOnly
	}
	return nil
}

// result returns what becomes of the paths, as the caller, a batch and a record know it.
func (p *planner) result() (made []Made, changes []diff.Change, parts []vfs.Part, err error) {
	for _, path := range p.order {
		n := p.nodes[path]
		if n.was == n.is {
			continue
		}
		if err := p.changeable(path); err != nil {
			return nil, nil, nil, vfs.At(path, err)
		}
		if len(changes) == step.Max {
			return nil, nil, nil, vfs.Errorf(vfs.Limit, "a change changes at most %d paths; make several", step.Max)
		}
		if p.bytes += n.wasSize; n.is.Kind == vfs.FileKind {
			p.bytes += n.size
		}
		if p.bytes > MaxBytes {
			return nil, nil, nil, vfs.Errorf(vfs.Limit, "a change writes, moves and removes at most %d MiB of contents; move and remove large files by themselves", MaxBytes>>20)
		}
		made = append(made, Made{path, n.was, n.is})
		changes = append(changes, diff.Change{Path: path, Was: n.was, Is: n.is, Content: n.open})
		parts = append(parts, vfs.Part{Path: path, Kind: n.is.Kind, Version: n.is.Version, Size: n.size, Exec: n.is.Exec, Target: n.is.Target, WasKind: n.was.Kind, Was: n.was.Version})
	}
	slices.SortFunc(parts, func(a, b vfs.Part) int { return diff.ComparePaths(a.Path, b.Path) })
	return made, changes, parts, nil
}

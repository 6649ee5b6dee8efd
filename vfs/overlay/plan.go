package overlay

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// plan is what must change in the lower tree so that it matches the overlay. It
// compares three states at each path: what the lower tree had when the overlay first
// stopped reading through, what it has now, and what the overlay shows.
type plan struct {
	s       *snapshot
	chosen  *selection
	ours    *selection      // where the overlay's side wins
	theirs  *selection      // where the lower tree's side wins
	paths   map[string]bool // that may differ
	changes map[string]diff.Change
	forced  map[string]diff.Change // changes that others need where the overlay's side wins
	clashes map[string]diff.Conflict
	dropped []string // changes over which the lower tree's side wins
}

// plan answers *diff.Conflicts with all conflicts.
func (s *snapshot) plan(ctx context.Context, chosen *selection, options ApplyOptions) (*plan, error) {
	p := &plan{s: s, chosen: chosen, paths: map[string]bool{}, changes: map[string]diff.Change{},
		clashes: map[string]diff.Conflict{}}
	var err error
	if p.ours, err = s.side(options.Ours, chosen); err != nil {
		return nil, err
	}
	if p.theirs, err = s.side(options.Theirs, chosen); err != nil {
		return nil, err
	}
	if err := p.collect(ctx); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(p.paths)) {
		if err := p.compareAt(ctx, path); err != nil {
			return nil, err
		}
	}
	for todo := p.changes; len(todo) > 0; { // forced changes may need others, too
		p.forced = map[string]diff.Change{}
		for _, path := range slices.Sorted(maps.Keys(todo)) {
			if err := p.surround(ctx, path); err != nil {
				return nil, err
			}
		}
		maps.Copy(p.changes, p.forced)
		todo = p.forced
	}
	if err := p.decides(slices.Concat(options.Ours, options.Theirs)); err != nil {
		return nil, err
	}
	if len(p.clashes) > 0 {
		c := &diff.Conflicts{}
		for _, path := range slices.Sorted(maps.Keys(p.clashes)) {
			c.Paths = append(c.Paths, p.clashes[path])
		}
		return nil, c
	}
	return p, nil
}

// side returns a selection of the paths at which one side wins. A moved node is in it
// with both of its places.
func (s *snapshot) side(paths []string, chosen *selection) (*selection, error) {
	if len(paths) == 0 {
		return newSelection(nil, nil), nil
	}
	for _, path := range paths {
		if path != "" && !chosen.has(path) {
			return nil, vfs.At(path, vfs.Errorf(vfs.Invalid, "ours or theirs names this path, but it is not among those to apply"))
		}
	}
	return s.choose(paths, true)
}

// decides answers invalid if one of sides has no change to decide.
func (p *plan) decides(sides []string) error {
	all := slices.Collect(maps.Keys(p.paths))
	all = slices.AppendSeq(all, maps.Keys(p.changes))
	all = slices.AppendSeq(all, maps.Keys(p.clashes))
	for _, side := range sides {
		if !slices.ContainsFunc(all, func(path string) bool { return diff.Within(path, side) }) {
			return vfs.At(side, vfs.Errorf(vfs.Invalid, "ours or theirs names this path, but nothing was changed here"))
		}
	}
	return nil
}

// collect finds the chosen paths that may differ.
func (p *plan) collect(ctx context.Context) error {
	for path := range p.s.bases {
		p.add(path)
	}
	walked := ""
	for _, n := range p.s.nodes {
		if n.through || n.kind == gone {
			continue
		}
		if walked == "" || !diff.Within(n.path, walked) {
			walked = n.path
			if err := p.addAll(ctx, n.path, p.s.shown.Open); err != nil {
				return err
			}
		}
		if n.moved {
			if err := p.addAll(ctx, n.origin, p.s.lower.Open); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *plan) add(path string) {
	if p.chosen.has(path) {
		p.paths[path] = true
	}
}

// addAll adds path and everything that open finds below it.
func (p *plan) addAll(ctx context.Context, path string, open func(context.Context, string) (vfs.Node, error)) error {
	if !p.chosen.meets(path) {
		return nil
	}
	if strings.Count(path, "/") >= 2*vfs.MaxDepth || len(path) > 2*vfs.MaxPath { // nobody could open it after any move
		return vfs.At(path, vfs.Errorf(vfs.Limit, "what was moved has paths that nobody can open; revert the move"))
	}
	p.add(path)
	n, err := open(ctx, path)
	if missing(err) {
		return nil
	}
	if err != nil {
		return vfs.At(path, err)
	}
	defer n.Close()
	d, ok := n.(vfs.Dir)
	if !ok {
		return nil
	}
	for e, err := range d.List(ctx) {
		if err != nil {
			return vfs.At(path, err)
		}
		at := vfs.Join(path, e.Name)
		p.add(at)
		if e.Kind == vfs.DirKind {
			if err := p.addAll(ctx, at, open); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareAt compares the three states at path.
func (p *plan) compareAt(ctx context.Context, path string) error {
	is, wanted, err := p.s.both(ctx, path)
	if err != nil || is == wanted {
		return err
	}
	was := is
	if b, known := p.s.bases[path]; known && !b.moved {
		was = b.state
	} else if _, shown := p.s.where(path); !known && !shown {
		was = diff.State{}
	}
	switch {
	case was == wanted: // only the lower tree changed
		return nil
	case p.theirs.has(path):
		p.dropped = append(p.dropped, path)
	case was != is && !p.ours.has(path):
		p.clash(path, was, is, wanted)
	default:
		p.changes[path] = diff.Change{Path: path, Was: is, Is: wanted, Content: p.s.o.content(path)}
	}
	return nil
}

func (p *plan) clash(path string, was, is, wanted diff.State) {
	if p.ours.has(path) && is.Kind != diff.Foreign {
		p.forced[path] = diff.Change{Path: path, Was: is, Is: wanted}
		return
	}
	p.clashes[path] = diff.Conflict{Path: path, Was: was, Becomes: wanted, Is: is,
		Why: "the lower tree changed here since the overlay did; let one side win here, or make the lower tree as it was"}
}

// known reports whether path is changed already.
func (p *plan) known(path string) bool {
	_, changes := p.changes[path]
	_, forced := p.forced[path]
	return changes || forced
}

// surround checks what the change at path needs: the directories above a new node, and
// the entries of a removed directory.
func (p *plan) surround(ctx context.Context, path string) error {
	c := p.changes[path]
	if !c.Is.Absent() {
		for up, _ := diff.Split(path); up != ""; up, _ = diff.Split(up) {
			if p.known(up) {
				break
			}
			is, err := p.s.lowerState(ctx, up)
			if err != nil {
				return err
			}
			if is.Kind == vfs.DirKind {
				break
			}
			p.clash(up, diff.State{Kind: vfs.DirKind}, is, diff.State{Kind: vfs.DirKind})
		}
	}
	if c.Was.Kind != vfs.DirKind || c.Is.Kind == vfs.DirKind {
		return nil
	}
	n, err := p.s.lower.Open(ctx, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer n.Close()
	d, ok := n.(vfs.Dir)
	if !ok {
		return vfs.At(path, vfs.Stale)
	}
	for e, err := range d.List(ctx) {
		if err != nil {
			return vfs.At(path, err)
		}
		at := vfs.Join(path, e.Name)
		if _, clashes := p.clashes[at]; clashes || p.known(at) {
			continue
		}
		is := diff.State{Kind: diff.Foreign}
		if e.Kind != vfs.Other {
			if is, err = p.s.lowerState(ctx, at); err != nil {
				return err
			}
		}
		p.clash(at, diff.State{}, is, diff.State{})
	}
	return nil
}

// content returns a function that reads what the overlay shows at path.
func (o *Overlay) content(path string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		n, err := o.open(ctx, path)
		if err != nil {
			return nil, err
		}
		return readerOf(ctx, n)
	}
}

// readerOf reads n, which must be a file, and takes it over.
func readerOf(ctx context.Context, n vfs.Node) (io.ReadCloser, error) {
	f, ok := n.(vfs.File)
	if !ok {
		n.Close()
		return nil, vfs.Stale
	}
	return diff.ReadFile(ctx, f)
}

package overlay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
)

// ChangeKind says what a [Change] is.
type ChangeKind string

// The kinds of changes.
const (
	Added    ChangeKind = "added"
	Removed  ChangeKind = "removed"
	Modified ChangeKind = "modified" // other content, or another target of a link
	Renamed  ChangeKind = "renamed"  // it was at From; a directory with all that it holds, less what has a Change of its own
	Mode     ChangeKind = "mode"     // executable, or no more
	Type     ChangeKind = "type"     // what was there is of another kind
)

// Change is one difference between the overlay and the tree below it.
type Change struct {
	Path string // relative to the overlay's root
	Kind ChangeKind
	From string      // of what was renamed, and of a directory in place of something else: its place in the lower tree
	Was  batch.State // at Path when the overlay was first changed there
	Is   batch.State
}

// Diff returns the changes at and below the path under, "" for all, in byte order of
// paths. What is as it was, or as the lower tree is by now, is no change; nor is what
// only the lower tree changed. Nobody changes the overlay meanwhile.
func (o *Overlay) Diff(ctx context.Context, under string) ([]Change, error) {
	if err := checkPath(under); err != nil {
		return nil, err
	}
	o.warm(ctx, under)
	if err := o.begin(ctx); err != nil {
		return nil, err
	}
	defer o.end()
	return o.diff(ctx, o.survey(), under)
}

// warm asks both stores for the versions that diff will need, with no turn held. Stores
// usually remember them, so that diff is quick afterwards.
func (o *Overlay) warm(ctx context.Context, under string) { _, _ = o.diff(ctx, o.survey(), under) }

func checkPath(path string) error {
	if path == "" {
		return nil
	}
	_, err := vfs.SplitPath(path)
	return err
}

// Changed reports whether Diff would answer any change. It looks for one and no further,
// and nobody waits for it.
func (o *Overlay) Changed(ctx context.Context) (changed bool, err error) {
	err = o.differences(ctx, o.survey(), "", func(Change) bool {
		changed = true
		return false
	})
	return changed, err
}

func (o *Overlay) diff(ctx context.Context, s *survey, under string) ([]Change, error) {
	var changes []Change
	err := o.differences(ctx, s, under, func(c Change) bool {
		changes = append(changes, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// differences calls f for each change at or below under, until it answers false.
func (o *Overlay) differences(ctx context.Context, s *survey, under string, f func(Change) bool) error {
	for _, n := range s.nodes {
		if n.through || !within(n.path, under) {
			continue
		}
		if c, err := o.compare(ctx, s, n); err != nil || c.Kind != "" && !f(c) {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		if !within(path, under) {
			continue
		}
		if c, err := o.nodeless(ctx, s, path); err != nil || c.Kind != "" && !f(c) {
			return err
		}
	}
	return nil
}

// nodeless says what has changed at a lower path where no node says it: what was hidden
// there, or removed.
func (o *Overlay) nodeless(ctx context.Context, s *survey, path string) (Change, error) {
	b := s.bases[path]
	parent, _ := split(path)
	_, shown := s.shows[parent]
	if _, noted := s.at[path]; shown || noted {
		return Change{}, nil
	}
	if b.moved {
		told, err := o.told(ctx, s, path)
		if err != nil || told {
			return Change{}, err
		}
		if b.state, err = o.lowerState(ctx, path); err != nil {
			return Change{}, err
		}
	}
	is, err := o.visible(ctx, path)
	if err != nil {
		return Change{}, err
	}
	return o.differs(ctx, Change{Path: path, Was: b.state, Is: is}, path)
}

// compare says what has changed at n, if anything has. What took the place of something
// else is compared with that, and never only renamed: no change hides what it removes.
func (o *Overlay) compare(ctx context.Context, s *survey, n surveyed) (c Change, err error) {
	c.Path = n.path
	at := s.before(n)
	b := s.bases[at]
	if c.Was = b.state; b.moved {
		if n.kind == gone {
			if told, err := o.told(ctx, s, at); told || err != nil {
				return c, err
			}
		}
		if c.Was, err = o.lowerState(ctx, at); err != nil {
			return c, err
		}
	}
	if n.kind != gone {
		if c.Is, err = o.visible(ctx, n.path); err != nil {
			return c, err
		}
	}
	if n.moved && !c.Is.Absent() && (c.Was.Absent() || c.Is.Kind == vfs.DirKind) {
		from, err := o.lowerState(ctx, n.origin)
		if err != nil {
			return c, err
		}
		if from == c.Is {
			if c.From, c.Kind = n.origin, Renamed; !c.Was.Absent() && c.Was.Kind != vfs.DirKind {
				c.Kind = Type
			}
			return c, nil
		}
	}
	return o.differs(ctx, c, at)
}

// told reports whether a change says where it is now what the lower tree has at path,
// from where it was moved.
func (o *Overlay) told(ctx context.Context, s *survey, path string) (bool, error) {
	i, shown := s.at[s.shows[path]]
	if !shown || s.nodes[i].through {
		return shown, nil
	}
	c, err := o.compare(ctx, s, s.nodes[i])
	return c.From == path, err
}

// differs completes c with its kind, which is empty when there is no difference, or none
// any more to what the lower tree has at the path at.
func (o *Overlay) differs(ctx context.Context, c Change, at string) (Change, error) {
	if c.Was == c.Is {
		return c, nil
	}
	lower, err := o.lowerState(ctx, at)
	if err != nil || lower == c.Is {
		return c, err
	}
	switch {
	case c.Was.Absent():
		c.Kind = Added
	case c.Is.Absent():
		c.Kind = Removed
	case c.Was.Kind != c.Is.Kind:
		c.Kind = Type
	case c.Was.Version != c.Is.Version || c.Was.Target != c.Is.Target:
		c.Kind = Modified
	default:
		c.Kind = Mode
	}
	return c, nil
}

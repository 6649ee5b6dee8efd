package overlay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// Diff returns the changes at and below the path under, in byte order of paths; ""
// means all. It leaves out what is as it was, what the lower tree has by now, and what
// only the lower tree changed. The overlay does not change while Diff runs.
func (o *Overlay) Diff(ctx context.Context, under string) ([]diff.Change, error) {
	if err := checkPath(under); err != nil {
		return nil, err
	}
	o.warm(ctx, under)
	var changes []diff.Change
	err := o.unchanged(ctx, func(s *snapshot) (err error) {
		changes, err = s.diff(ctx, under)
		return err
	})
	return changes, err
}

// warm asks both stores for the versions that diff will need, without holding the turn.
// Stores usually cache them, so diff is quick afterwards.
func (o *Overlay) warm(ctx context.Context, under string) {
	s := o.snapshot()
	defer s.close()
	_, _ = s.diff(ctx, under)
}

func checkPath(path string) error {
	if path == "" {
		return nil
	}
	_, err := vfs.SplitPath(path)
	return err
}

// Changed reports whether Diff would return any change. It stops at the first one, and the
// overlay may change meanwhile.
func (o *Overlay) Changed(ctx context.Context) (bool, error) {
	return o.Any(ctx, func(diff.Change) bool { return true })
}

// Any reports whether Diff would return a change for which is returns true. It stops at the
// first one, and the overlay may change meanwhile.
func (o *Overlay) Any(ctx context.Context, is func(diff.Change) bool) (some bool, err error) {
	s := o.snapshot()
	defer s.close()
	err = s.differences(ctx, "", func(c diff.Change) bool {
		some = is(c)
		return !some
	})
	return some, err
}

func (s *snapshot) diff(ctx context.Context, under string) ([]diff.Change, error) {
	var changes []diff.Change
	err := s.differences(ctx, under, func(c diff.Change) bool {
		changes = append(changes, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(changes, func(a, b diff.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// differences calls f for each change at or below under, until f returns false.
func (s *snapshot) differences(ctx context.Context, under string, f func(diff.Change) bool) error {
	for _, n := range s.nodes {
		if n.through || !diff.Within(n.path, under) {
			continue
		}
		if c, err := s.compare(ctx, n); err != nil || c.Kind != "" && !f(c) {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.bases)) {
		if !diff.Within(path, under) {
			continue
		}
		if c, err := s.nodeless(ctx, path); err != nil || c.Kind != "" && !f(c) {
			return err
		}
	}
	return nil
}

// nodeless returns the change at a lower path for which the overlay has no node:
// something was hidden or removed there.
func (s *snapshot) nodeless(ctx context.Context, path string) (diff.Change, error) {
	b := s.bases[path]
	parent, _ := diff.Split(path)
	_, shown := s.shows[parent]
	if _, noted := s.at[path]; shown || noted {
		return diff.Change{}, nil
	}
	if b.moved {
		told, err := s.told(ctx, path)
		if err != nil || told {
			return diff.Change{}, err
		}
		if b.state, err = s.lowerState(ctx, path); err != nil {
			return diff.Change{}, err
		}
	}
	is, err := s.visible(ctx, path)
	if err != nil {
		return diff.Change{}, err
	}
	return s.differs(ctx, diff.Change{Path: path, Was: b.state, Is: is}, path)
}

// compare returns the change at n, if there is one. A node that replaced another is
// compared with that one, and is never a plain rename: no change hides a removal.
func (s *snapshot) compare(ctx context.Context, n snapshotNode) (c diff.Change, err error) {
	c.Path = n.path
	at := s.before(n)
	b := s.bases[at]
	if c.Was = b.state; b.moved {
		if n.kind == gone {
			if told, err := s.told(ctx, at); told || err != nil {
				return c, err
			}
		}
		if c.Was, err = s.lowerState(ctx, at); err != nil {
			return c, err
		}
	}
	if n.kind != gone {
		if c.Is, err = s.visible(ctx, n.path); err != nil {
			return c, err
		}
	}
	if n.moved && !c.Is.Absent() && (c.Was.Absent() || c.Is.Kind == vfs.DirKind) {
		from, err := s.lowerState(ctx, n.origin)
		if err != nil {
			return c, err
		}
		if from == c.Is {
			if c.From, c.Kind = n.origin, diff.Renamed; !c.Was.Absent() && c.Was.Kind != vfs.DirKind {
				c.Kind = diff.Type
			}
			return c, nil
		}
	}
	return s.differs(ctx, c, at)
}

// told reports whether another change says where the node is now that the lower tree
// has at path.
func (s *snapshot) told(ctx context.Context, path string) (bool, error) {
	i, shown := s.at[s.shows[path]]
	if !shown || s.nodes[i].through {
		return shown, nil
	}
	c, err := s.compare(ctx, s.nodes[i])
	return c.From == path, err
}

// differs sets c's kind. The kind is empty when there is no difference, or none to what
// the lower tree has now at the path at.
func (s *snapshot) differs(ctx context.Context, c diff.Change, at string) (diff.Change, error) {
	if c.Was == c.Is {
		return c, nil
	}
	lower, err := s.lowerState(ctx, at)
	if err != nil || lower == c.Is {
		return c, err
	}
	c.Kind = diff.KindOf(c.Was, c.Is)
	return c, nil
}

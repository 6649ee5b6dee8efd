package overlay

import (
	"context"
	"iter"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// selection is the paths that a host chose.
type selection struct {
	all  bool
	deep []string        // with everything below each; in tree order, none within another
	lone map[string]bool // without their entries
}

func newSelection(deep, lone []string) *selection {
	c := &selection{lone: map[string]bool{}}
	for _, path := range slices.SortedFunc(slices.Values(deep), diff.ComparePaths) {
		if !c.has(path) {
			c.deep = append(c.deep, path)
		}
	}
	for _, path := range lone {
		c.lone[path] = true
	}
	return c
}

// choose checks paths; nil means all. A moved node must be chosen with both of its
// places or not at all. If whole is set, what it holds is not chosen without it.
// Otherwise choose answers invalid and says which path to add.
func (s *snapshot) choose(paths []string, whole bool) (*selection, error) {
	for _, path := range paths {
		if err := checkPath(path); err != nil {
			return nil, vfs.At(path, err)
		}
	}
	if paths == nil || slices.Contains(paths, "") {
		return &selection{all: true}, nil
	}
	chosen := newSelection(paths, nil)
	for _, n := range s.nodes {
		if !n.moved || n.through {
			continue
		}
		for here, there := range map[string]string{n.path: n.origin, n.origin: n.path} {
			switch {
			case chosen.has(here) && !chosen.has(there):
				return nil, vfs.At(there, vfs.Errorf(vfs.Invalid, "it was moved, and only its other path was chosen; choose this path too"))
			case whole && chosen.meets(here) && !chosen.has(here):
				return nil, vfs.At(here, vfs.Errorf(vfs.Invalid, "it was moved, and only its content was chosen; choose this path too"))
			}
		}
	}
	return chosen, nil
}

// lead adds to chosen the directories on the way that the lower tree lacks.
func (s *snapshot) lead(ctx context.Context, chosen *selection) error {
	for up := range chosen.above() {
		is, shown, err := s.both(ctx, up)
		if err != nil {
			return err
		}
		if shown.Kind == vfs.DirKind && is.Kind != vfs.DirKind {
			chosen.lone[up] = true
		}
	}
	return nil
}

// above yields the directories on the way to the chosen paths.
func (c *selection) above() iter.Seq[string] {
	seen := map[string]bool{}
	for _, path := range c.deep {
		for up, _ := diff.Split(path); up != "" && !seen[up]; up, _ = diff.Split(up) {
			seen[up] = true
		}
	}
	return maps.Keys(seen)
}

// has reports whether path was chosen.
func (c *selection) has(path string) bool {
	if c.all || c.lone[path] {
		return true
	}
	i, found := slices.BinarySearchFunc(c.deep, path, diff.ComparePaths)
	return found || i > 0 && diff.Within(path, c.deep[i-1])
}

// meets reports whether path, or something below it, was chosen.
func (c *selection) meets(path string) bool {
	if c.has(path) {
		return true
	}
	i, _ := slices.BinarySearchFunc(c.deep, path, diff.ComparePaths)
	return i < len(c.deep) && diff.Within(c.deep[i], path)
}

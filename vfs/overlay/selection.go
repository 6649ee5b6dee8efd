package overlay

import (
	"context"
	"slices"

	"capd/vfs"
)

// selection is the paths that a host chose.
type selection struct {
	all   bool
	deep  map[string]bool // with everything below each
	lone  map[string]bool // without their entries
	above map[string]bool // the directories on the way to those in deep
}

func newSelection(deep, lone []string) *selection {
	c := &selection{deep: map[string]bool{}, lone: map[string]bool{}, above: map[string]bool{}}
	for _, path := range deep {
		c.deep[path] = true
		for up, _ := split(path); up != "" && !c.above[up]; up, _ = split(up) {
			c.above[up] = true
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
func (o *Overlay) lead(ctx context.Context, chosen *selection) error {
	for up := range chosen.above {
		if chosen.has(up) {
			continue
		}
		shown, err := o.visible(ctx, up)
		if err != nil {
			return err
		}
		is, err := o.lowerState(ctx, up)
		if err != nil {
			return err
		}
		if shown.Kind == vfs.DirKind && is.Kind != vfs.DirKind {
			chosen.lone[up] = true
		}
	}
	return nil
}

// has reports whether path was chosen.
func (c *selection) has(path string) bool {
	if c.all || c.lone[path] {
		return true
	}
	for up := path; up != ""; up, _ = split(up) {
		if c.deep[up] {
			return true
		}
	}
	return false
}

// meets reports whether path, or something below it, was chosen.
func (c *selection) meets(path string) bool { return c.has(path) || c.above[path] }

package batch

import (
	"context"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// cursor opens directories by their paths below root, one name at a time and through no
// link. It keeps open those on the way to the last one.
type cursor struct {
	root vfs.Dir
	way  []stop
}

type stop struct {
	name string
	dir  vfs.Dir
}

// dir returns the directory at path. The cursor closes it; it is valid until the next
// call. It answers notDir if a link or a file is on the way.
func (c *cursor) dir(ctx context.Context, path string) (vfs.Dir, error) {
	var names []string
	if path != "" {
		names = strings.Split(path, "/")
	}
	common := 0
	for common < len(names) && common < len(c.way) && names[common] == c.way[common].name {
		common++
	}
	c.back(common)
	at := c.here()
	for _, name := range names[common:] {
		n, err := at.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		next, ok := n.(vfs.Dir)
		if !ok {
			n.Close()
			return nil, vfs.NotDir
		}
		c.way = append(c.way, stop{name, next})
		at = next
	}
	return at, nil
}

func (c *cursor) here() vfs.Dir {
	if len(c.way) == 0 {
		return c.root
	}
	return c.way[len(c.way)-1].dir
}

// back closes the directories deeper than depth.
func (c *cursor) back(depth int) {
	for _, s := range c.way[depth:] {
		s.dir.Close()
	}
	c.way = c.way[:depth]
}

func (c *cursor) close() { c.back(0) }

// look returns what is at path. inDir reports whether path's parent is a directory.
func (c *cursor) look(ctx context.Context, path string) (is diff.State, inDir bool, err error) {
	parent, name := split(path)
	for range 2 {
		var d vfs.Dir
		if d, err = c.dir(ctx, parent); err == nil {
			is, err = stateOf(ctx, d, name)
			inDir = true
		} else if code := vfs.CodeOf(err); code == vfs.NotFound || code == vfs.NotDir || code == vfs.NotRegular {
			return diff.State{}, false, nil
		}
		if vfs.CodeOf(err) != vfs.Stale {
			break
		}
		c.close() // somebody moved a directory that was open
	}
	return is, inDir, err
}

// stateOf returns the state of name in d.
func stateOf(ctx context.Context, d vfs.Dir, name string) (diff.State, error) {
	s, err := nodeState(ctx, d, name)
	switch vfs.CodeOf(err) {
	case vfs.NotFound:
		return diff.State{}, nil
	case vfs.NotRegular, vfs.CrossDevice, vfs.TooLarge:
		return diff.State{Kind: diff.Foreign}, nil
	}
	return s, err
}

func nodeState(ctx context.Context, d vfs.Dir, name string) (diff.State, error) {
	n, err := d.Lookup(ctx, name)
	if err != nil {
		return diff.State{}, err
	}
	defer n.Close()
	return diff.StateOf(ctx, n)
}

// split returns path's directory and its last name.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// compare orders paths as a walk visits them: by name, and a directory just before its
// entries.
func compare(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		case x < y:
			return -1
		default:
			return 1
		}
	}
	return len(a) - len(b)
}

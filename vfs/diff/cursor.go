package diff

import (
	"context"
	"strings"

	"capd/vfs"
)

// Cursor opens nodes by their paths below a directory, one name at a time and through no
// link. It keeps the directories on the way to the last one open, so whoever looks at
// paths in tree order opens each directory once. It is for one goroutine at a time.
type Cursor struct {
	root vfs.Dir
	way  []stop
}

type stop struct {
	name string
	dir  vfs.Dir
}

// NewCursor returns a cursor over root, which stays open. The caller closes the cursor.
func NewCursor(root vfs.Dir) *Cursor { return &Cursor{root: root} }

// Dir returns the directory at path. The cursor closes it; it is valid until the next
// call. It answers notDir if something else is on the way.
func (c *Cursor) Dir(ctx context.Context, path string) (vfs.Dir, error) {
	var names []string
	if path != "" {
		names = strings.Split(path, "/")
	}
	common := 0
	for common < len(names) && common < len(c.way) && names[common] == c.way[common].name {
		common++
	}
	c.back(common)
	at := c.root
	if common > 0 {
		at = c.way[common-1].dir
	}
	for _, name := range names[common:] {
		n, err := at.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		next, err := vfs.AsDir(n)
		if err != nil {
			return nil, err
		}
		c.way = append(c.way, stop{name, next})
		at = next
	}
	return at, nil
}

// Open opens the node at path, which is not the root. It answers notDir if something other
// than a directory is on the way, and stale only if directories keep moving.
func (c *Cursor) Open(ctx context.Context, path string) (n vfs.Node, err error) {
	dir, name := Split(path)
	for range 4 {
		var d vfs.Dir
		if d, err = c.Dir(ctx, dir); err == nil {
			n, err = d.Lookup(ctx, name)
		}
		if vfs.CodeOf(err) != vfs.Stale || ctx.Err() != nil {
			break
		}
		c.Close() // somebody moved a directory that was open
	}
	return n, err
}

// back closes the directories deeper than depth.
func (c *Cursor) back(depth int) {
	for _, s := range c.way[depth:] {
		s.dir.Close()
	}
	c.way = c.way[:depth]
}

// Close closes what is open. The cursor can be used again.
func (c *Cursor) Close() { c.back(0) }

// Split returns path's directory, "" for the root, and its last name.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// Within reports whether path is dir or lies below it.
func Within(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// ComparePaths orders paths as a walk visits them: by name, and a directory just before
// its entries.
func ComparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

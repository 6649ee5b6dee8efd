package copier

import (
	"math"

	"capd/vfs"
)

// Limits bound what is copied. A field that is 0 or less means no limit, except that no
// tree is deeper than vfs.MaxDepth.
type Limits struct {
	Entries int   // files, directories and links
	Bytes   int64 // of all files
	Depth   int   // names in a path
}

func (l Limits) orNone() Limits {
	if l.Entries <= 0 {
		l.Entries = math.MaxInt
	}
	if l.Bytes <= 0 {
		l.Bytes = math.MaxInt64
	}
	if l.Depth <= 0 || l.Depth > vfs.MaxDepth {
		l.Depth = vfs.MaxDepth
	}
	return l
}

// TooMany returns the error for a tree of more than l.Entries.
func (l Limits) TooMany() error {
	return vfs.Errorf(vfs.Limit, "the tree has more than %d files, directories and links; take a smaller part or ask for more", l.Entries)
}

// TooLarge returns the error for a tree of more than l.Bytes.
func (l Limits) TooLarge() error {
	return vfs.Errorf(vfs.Limit, "the tree has more than %d bytes of files; take a smaller part or ask for more", l.Bytes)
}

// TooDeep returns the error for a tree deeper than l.Depth.
func (l Limits) TooDeep() error {
	return vfs.Errorf(vfs.Limit, "the tree is deeper than %d names; take a part further down", l.Depth)
}

// reserve reserves entries and bytes, or answers limit.
func (c *copying) reserve(entries int, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case bytes > c.o.Bytes-c.held.bytes:
		return c.o.TooLarge()
	case entries > c.o.Entries-c.held.entries:
		return c.o.TooMany()
	}
	c.held.entries += entries
	c.held.bytes += bytes
	return nil
}

// Package archive reads an archive as a tree, and writes a tree as an archive. It knows
// zip, tar, and tar compressed with gzip or zstd.
//
// An archive comes from somebody who may be hostile. [Open] reads its directory whole
// before anything can be done with it, and refuses it whole: for names that could not be
// created, links, devices, sparse files, entries that share bytes, two entries of one
// name, and more than the limits allow. A tree that Open has returned never changes.
package archive

import (
	"context"
	"io"
	"sync/atomic"

	"capd/vfs"
)

// Limits bound what an archive may hold. In a field that is 0 the default holds.
type Limits struct {
	Entries int   // files and directories; 100,000
	Bytes   int64 // of all files; 4 GiB
	Ratio   int64 // bytes of all files for each byte of the archive; 200. The first 16 MiB do not count

	// Memory and Disk are told how many more bytes the tree needs in memory, until it is closed, and in a temporary file. Their errors end Open.
	// Nil allows any number.
	Memory, Disk func(bytes int64) error
}

// The default of Limits.
const (
	maxEntries = 100_000
	maxBytes   = 4 << 30
	maxRatio   = 200
	freeBytes  = 16 << 20
)

func (l Limits) orDefault() Limits {
	if l.Entries <= 0 {
		l.Entries = maxEntries
	}
	if l.Bytes <= 0 {
		l.Bytes = maxBytes
	}
	if l.Ratio <= 0 {
		l.Ratio = maxRatio
	}
	if l.Memory == nil {
		l.Memory = unbounded
	}
	if l.Disk == nil {
		l.Disk = unbounded
	}
	return l
}

func unbounded(int64) error { return nil }

// Tree is what an archive holds.
type Tree struct {
	root    *entry
	limits  Limits
	packed  int64 // bytes of the archive
	entries int   // files and directories
	bytes   int64 // of all files
	spool   io.Closer
	closed  atomic.Bool
}

// Open reads the directory of the archive c. c stays the caller's; it is closed after the
// tree. Open answers invalid for what is not an archive or is damaged, unsupported for
// what this package does not read, exists for two entries of one name, and limit.
func Open(ctx context.Context, c vfs.Content, l Limits) (*Tree, error) {
	t := &Tree{root: newDir(), limits: l.orDefault(), packed: c.Size()}
	archive := source{ctx, c}
	f, err := formatOf(archive, c.Size())
	if err == nil {
		err = f.read(t, archive)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Root returns the top of the tree.
func (t *Tree) Root() vfs.Dir { return vfs.NewImmutableDir(listing{t, t.root}) }

// Below returns a directory in which the tree lies under name, which is a valid name.
func (t *Tree) Below(name string) vfs.Dir {
	top := newDir()
	top.holds[name] = t.root
	return vfs.NewImmutableDir(listing{t, top})
}

// Entries returns how many files and directories the tree has.
func (t *Tree) Entries() int { return t.entries }

// Bytes returns the size of all files.
func (t *Tree) Bytes() int64 { return t.bytes }

// Close ends the tree. Its files answer stale afterwards.
func (t *Tree) Close() error {
	if t.closed.Swap(true) || t.spool == nil {
		return nil
	}
	return t.spool.Close()
}

// source reads the archive, until the call ends.
type source struct {
	ctx context.Context
	vfs.Content
}

func (s source) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Content.ReadAt(p, off)
}

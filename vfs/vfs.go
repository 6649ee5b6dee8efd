// Package vfs defines what a tree of directories, files and links is. It does not say
// where a tree is stored or who may use it. Backends implement its interfaces, guards
// and mounts wrap them, and clients of the wire implement them again. vfs/vfstest holds
// all of them to one contract.
//
// Every name is one segment (see [CheckName]). Paths exist only at the edges (see
// [Walk]). Sizes and offsets are in bytes, times in milliseconds since the Unix epoch.
// Every error is a [Code], usually inside an [*Error].
//
// Every method may be called from several goroutines at once. A method that fails has
// changed nothing, unless its comment says otherwise.
package vfs

import (
	"context"
	"io"
	"iter"
)

// Kind is the type of a node.
type Kind uint8

// The kinds. Other is a node that a backend may list but never opens: a FIFO, a socket,
// a device.
const (
	Other Kind = iota
	FileKind
	DirKind
	LinkKind
)

func (k Kind) String() string {
	switch k {
	case FileKind:
		return "file"
	case DirKind:
		return "directory"
	case LinkKind:
		return "symlink"
	}
	return "other"
}

// KindOf returns n's kind, by the interface that n implements.
func KindOf(n Node) Kind {
	switch n.(type) {
	case Dir:
		return DirKind
	case File:
		return FileKind
	case Link:
		return LinkKind
	}
	return Other
}

// Info is the result of Stat.
type Info struct {
	Kind       Kind
	Size       int64 // bytes of a file; 0 for anything else
	ModifiedMs int64 // milliseconds since the Unix epoch
	Exec       bool  // a file that its owner may execute

	// Links is how many names a file has in its store (hard links); 0 means that it is not
	// known. It is for the host alone.
	Links uint64
}

// Entry is one name of a directory. The name need not be valid UTF-8; see
// [Printable].
type Entry struct {
	Name string
	Kind Kind
}

// Node is a directory, a file or a link. Every Node is exactly one of Dir, File and
// Link. A node is a place in a tree, and never returns content of another place.
//
// A directory that was moved, removed, or removed and made again is stale, and so is
// every node opened below it. If it is moved back, they are valid again. A file or a
// link is whatever has its name: it is notFound when nothing has the name, and stale
// while a node of another kind has it.
type Node interface {
	// Stat answers revoked, stale, notFound.
	Stat(ctx context.Context) (Info, error)
	// Close closes this reference only, not its parents or nodes derived from it. It
	// may be called more than once, and after a revoke. Every later call on this
	// reference answers stale.
	Close() error
}

// Dir is a directory. No method leads to a parent.
type Dir interface {
	Node

	// Lookup returns the node called name. It never follows a link. It answers notFound
	// and invalid, notRegular for a node that is neither file, directory nor link, and
	// crossDevice for a place where another filesystem begins.
	Lookup(ctx context.Context, name string) (Node, error)

	// List yields every entry once, in byte order of names. If it yields an error, the
	// listing ends there. An entry that is added or removed during the listing may or
	// may not be seen.
	List(ctx context.Context) iter.Seq2[Entry, error]

	// Create makes an empty file. It answers exists when the name is taken, even by a
	// link.
	Create(ctx context.Context, name string) (File, error)

	// Mkdir makes an empty directory. It answers exists when the name is taken.
	Mkdir(ctx context.Context, name string) (Dir, error)

	// Replace makes all of r the content of the file called name, and creates the file
	// if it is missing. The content is staged first and then put in place at once: a
	// reader sees either the old or the new content, and a failure or a crash leaves
	// the old. An executable file stays executable.
	//
	// It answers conflict when c does not hold, isDir, notRegular for a link or a
	// special file, tooLarge, limit, and an error of r unchanged.
	Replace(ctx context.Context, name string, r io.Reader, c If) (Version, error)

	// Remove removes the file, link or empty directory called name. It never follows a
	// link. It answers notFound, notEmpty, conflict, and invalid for a directory or a
	// link if c is a condition on a file.
	Remove(ctx context.Context, name string, c If) error

	// Rename moves the node called name to newName in dst. dst must be a directory of
	// the same store, or of the same [capd/vfs/namespace.Namespace], which copies between
	// its trees. Otherwise Rename answers crossDevice. A link is moved itself.
	//
	// If the target exists, Rename answers exists, unless it is a file and to names its
	// version, or unless to says Over: then a file or a link replaces a file or a link, and
	// a directory replaces an empty one; see [If.Displaces]. It is replaced at once: its name
	// is never missing. If source and target are the same place, Rename changes nothing. It
	// answers invalid for a directory moved into itself or below. The condition from is on
	// the source, and to on the target; both are on files. Nodes that were opened below the
	// old place are stale afterwards.
	Rename(ctx context.Context, name string, dst Dir, newName string, from, to If) error
}

// File is a regular file. It is a place and not a descriptor: after a Replace at the
// same place a File reads the new content.
type File interface {
	Node

	// ReadAt follows io.ReaderAt: n < len(p) comes with an error, which is io.EOF at
	// the end of the file. An offset at or past the end answers io.EOF, even for an
	// empty p. An offset below 0 is invalid.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)

	// WriteAt writes p at off in place and fills a gap with zeros. It answers conflict
	// when c does not hold, and limit when the store is full. After a failure the first
	// n bytes were written.
	WriteAt(ctx context.Context, p []byte, off int64, c If) (n int, err error)

	// Truncate sets the file's size to size bytes, cutting it or adding zeros.
	Truncate(ctx context.Context, size int64, c If) error

	// Replace makes all of r the content of the file at its place, as [Dir].Replace does.
	// It never creates a file.
	Replace(ctx context.Context, r io.Reader, c If) (Version, error)

	// Sync returns when everything written so far would survive a power cut, as far as
	// the store can promise it.
	Sync(ctx context.Context) error
}

// Link is a symbolic link. Methods of nodes never follow one; [Walk] does.
type Link interface {
	Node
	// Target returns the link's text as stored.
	Target(ctx context.Context) (string, error)
}

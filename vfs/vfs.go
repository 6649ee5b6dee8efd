// Package vfs is the waist of capd: what a tree of directories, files and
// links is, and nothing of where it is kept or who may use it. Backends
// implement these interfaces, guards and mounts wrap them, the wire translates
// them, and a client of the wire implements them again; vfs/vfstest holds all
// of them to one contract.
//
// Every name is one segment (see [CheckName]); paths exist only at the edges
// (see [Walk]). Sizes and offsets are in bytes, times in milliseconds since the
// Unix epoch. Every error is a [Code], as a rule inside an [*Error].
//
// Every method may be called from several goroutines at once. A method that
// fails has changed nothing, unless its comment says otherwise.
package vfs

import (
	"context"
	"io"
	"iter"
)

// Kind says what a node is.
type Kind uint8

// The kinds. Other is what a backend may list but never opens: a FIFO, a
// socket, a device.
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

// KindOf says which interface n has.
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

// Info is what Stat answers.
type Info struct {
	Kind       Kind
	Size       int64 // bytes of a file; 0 for anything else
	ModifiedMs int64 // milliseconds since the Unix epoch
	Exec       bool  // a file that its owner may execute
}

// Entry is one name of a directory. The name need not be valid UTF-8; see
// [Printable].
type Entry struct {
	Name string
	Kind Kind
}

// Node is a directory, a file or a link: every Node is exactly one of Dir, File
// and Link. A node is a place in a tree, and never answers the wrong content.
// A directory that was moved, removed, or removed and made again is stale, and so is
// all that was opened below it; moved back, they are what they were. A file or a link
// is whatever has its name: notFound once nothing has it, and stale while something
// of another kind does.
type Node interface {
	// Stat answers revoked, stale, notFound.
	Stat(ctx context.Context) (Info, error)
	// Close gives up this reference and nothing else: neither parents nor nodes
	// derived from it. It may be called more than once, and after a revoke.
	// Every later call on this reference answers stale.
	Close() error
}

// Dir is a directory. No method leads to a parent.
type Dir interface {
	Node

	// Lookup returns the node called name and never follows a link.
	// It answers notFound, invalid, and notRegular for what is neither file,
	// directory nor link, and crossDevice for a place where another filesystem
	// begins.
	Lookup(ctx context.Context, name string) (Node, error)

	// List yields every entry once, in byte order of names. An error is the
	// last thing yielded. An entry that appears or goes during the listing
	// may or may not be seen.
	List(ctx context.Context) iter.Seq2[Entry, error]

	// Create makes an empty file. It answers exists when the name is taken,
	// by a link too.
	Create(ctx context.Context, name string) (File, error)

	// Mkdir makes an empty directory. It answers exists when the name is taken.
	Mkdir(ctx context.Context, name string) (Dir, error)

	// Replace makes r's bytes, to its end, the whole content of the file
	// called name, and makes the file when it is missing. The content is
	// staged first and then put in place at once: a reader sees the old or the
	// new, a failure or a crash leaves the old. An executable file stays so.
	// It answers conflict when c does not hold, isDir, notRegular for a link
	// or a special file, tooLarge, limit, and an error of r as it came.
	Replace(ctx context.Context, name string, r io.Reader, c If) (Version, error)

	// Remove removes the file, the link itself or the empty directory called
	// name. It answers notFound, notEmpty, conflict; a condition on a
	// directory or a link is invalid.
	Remove(ctx context.Context, name string, c If) error

	// Rename moves the node called name to newName in dst, which must be a
	// directory of the same store, or of the same [Namespace], which copies
	// between its trees (crossDevice otherwise). A link is moved itself. An
	// existing target is exists, unless it is a file and to names its version,
	// or source and target are the same place, which changes nothing. A
	// directory moved into itself or below is invalid. from and to are
	// conditions on files: from on the source, to on the target. Nodes that
	// were opened below the old place are stale afterwards.
	Rename(ctx context.Context, name string, dst Dir, newName string, from, to If) error
}

// File is a regular file. It is a place and not a descriptor: after a Replace
// at the same place a File reads the new content.
type File interface {
	Node

	// ReadAt is as io.ReaderAt has it: n < len(p) comes with an error, io.EOF
	// at the end of the file. At and past the end, wherever that is, io.EOF comes
	// with an empty p too. Offsets below 0 are invalid.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)

	// WriteAt writes p at off in place; a gap is filled with zeros. It answers
	// conflict when c does not hold, and limit when the store is full. When it
	// fails midway, n bytes were written.
	WriteAt(ctx context.Context, p []byte, off int64, c If) (n int, err error)

	// Truncate makes the file size bytes long, cutting or adding zeros.
	Truncate(ctx context.Context, size int64, c If) error

	// Sync returns when everything written so far would survive a power cut,
	// as far as the store can promise it.
	Sync(ctx context.Context) error
}

// Link is a symbolic link. Nothing below this package follows one; [Walk] does.
type Link interface {
	Node
	// Target returns the link's text as it is stored.
	Target(ctx context.Context) (string, error)
}

package vfs

import (
	"context"
	"io"
	"strings"
)

// Everything below is for hosts: no method of a guest's interface leads here. A guest sets
// an executable bit with [SetAttributes]. A host
// uses it to copy a tree unchanged from one store to another.

// Symlinker is a Dir in which links can be made.
type Symlinker interface {
	Symlink(ctx context.Context, name, target string) error
}

// CheckTarget checks the text of a link: 1 to [MaxPath] bytes without a NUL. The text
// need not lead anywhere. It answers invalid or limit.
func CheckTarget(target string) error {
	switch {
	case target == "":
		return Errorf(Invalid, "a link's target is empty")
	case len(target) > MaxPath:
		return Errorf(Limit, "a link's target is longer than %d bytes", MaxPath)
	case strings.Contains(target, "\x00"):
		return Errorf(Invalid, "a link's target holds a NUL")
	}
	return nil
}

// Symlink makes a link called name in d with the text target; see [CheckTarget]. It
// answers exists when the name is taken, and unsupported when d is not a [Symlinker].
func Symlink(ctx context.Context, d Dir, name, target string) error {
	if s, ok := d.(Symlinker); ok {
		return s.Symlink(ctx, name, target)
	}
	return Errorf(Unsupported, "this store cannot make links")
}

// Cloner is a Content that can be cloned into another file without copying bytes. The
// file system then keeps one set of bytes for both until one of them is written.
type Cloner interface {
	Clone(fd uintptr) error
}

// Clone clones c into the empty file that fd, a descriptor of this process, is open on
// for writing. It answers unsupported when c is not a [Cloner] or the two files cannot
// share bytes; copy them then.
func Clone(c Content, fd uintptr) error {
	if c, ok := c.(Cloner); ok {
		return c.Clone(fd)
	}
	return Errorf(Unsupported, "this content has to be copied")
}

// CloneReader is a reader of a content that a store may clone instead of reading it. A store
// that can, calls Clone before the first Read. It reads if that answers unsupported. Otherwise
// it calls Cloned before it puts anything in place.
type CloneReader interface {
	io.Reader
	Cloner
	Size() int64            // of the content, in bytes; 0 if it has to be read
	Cloned(v Version) error // v is the version of what the clone holds; an error ends the write
}

// Installer is a Dir that can put a file in place together with its executable bit.
type Installer interface {
	Install(ctx context.Context, name string, r io.Reader, exec bool, c If) (Version, error)
}

// Install is [Dir].Replace, except that exec says whether the owner can execute the file
// afterwards. It answers unsupported when d is not an [Installer].
func Install(ctx context.Context, d Dir, name string, r io.Reader, exec bool, c If) (Version, error) {
	if i, ok := d.(Installer); ok {
		return i.Install(ctx, name, r, exec, c)
	}
	return Version{}, Errorf(Unsupported, "this store keeps no executable bits")
}

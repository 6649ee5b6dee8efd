package vfs

import (
	"context"
	"io"
	"strings"
)

// What follows is for hosts: no method of a guest's interface leads here. A host
// uses it to carry a tree from one store to another as it is.

// Symlinker is a Dir in which links can be made.
type Symlinker interface {
	Symlink(ctx context.Context, name, target string) error
}

// CheckTarget answers invalid or limit unless a link may say target: any text of 1
// to [MaxPath] bytes without a NUL, which need not lead anywhere.
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

// Symlink makes a link called name in d that says target; see [CheckTarget]. It
// answers exists when the name is taken, and unsupported when d is no [Symlinker].
func Symlink(ctx context.Context, d Dir, name, target string) error {
	if s, ok := d.(Symlinker); ok {
		return s.Symlink(ctx, name, target)
	}
	return Errorf(Unsupported, "this store cannot make links")
}

// Cloner is a Content that can become another file's without being copied: the file
// system then keeps one set of bytes for both until one of them is written to.
type Cloner interface {
	Clone(fd uintptr) error
}

// Clone makes the content of c that of the empty file which fd, a descriptor of this
// process, is open on for writing. It answers unsupported when c is no [Cloner], or
// the two cannot share bytes; then they have to be copied.
func Clone(c Content, fd uintptr) error {
	if c, ok := c.(Cloner); ok {
		return c.Clone(fd)
	}
	return Errorf(Unsupported, "this content has to be copied")
}

// Installer is a Dir that lets a file be put in place as one that can be executed, or
// not.
type Installer interface {
	Install(ctx context.Context, name string, r io.Reader, exec bool, c If) (Version, error)
}

// Install is [Dir].Replace, but afterwards the file can be executed by its owner as
// exec says. It answers unsupported when d is no [Installer].
func Install(ctx context.Context, d Dir, name string, r io.Reader, exec bool, c If) (Version, error) {
	if i, ok := d.(Installer); ok {
		return i.Install(ctx, name, r, exec, c)
	}
	return Version{}, Errorf(Unsupported, "this store cannot say of a file whether it can be executed")
}

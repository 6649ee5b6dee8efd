// Package diff says how a tree differs from what it was. Stores, overlays, batches, the
// wire and the command line all speak of changes in its types. A [Cursor] goes through
// the trees that they compare.
package diff

import (
	"context"
	"errors"
	"io"

	"capd/vfs"
)

// Kind is the kind of a [Change].
type Kind string

// The kinds of changes.
const (
	Added    Kind = "added"
	Removed  Kind = "removed"
	Modified Kind = "modified" // other content, or another target of a link
	Renamed  Kind = "renamed"  // it was at From; for a directory with everything in it, except what has a Change of its own
	Mode     Kind = "mode"     // only the executable bit changed
	Type     Kind = "type"     // a node of another kind was there
)

// KindOf returns the kind of a change in place from was to is. The two differ.
func KindOf(was, is State) Kind {
	switch {
	case was.Absent():
		return Added
	case is.Absent():
		return Removed
	case was.Kind != is.Kind:
		return Type
	case was.Version == is.Version && was.Target == is.Target:
		return Mode
	}
	return Modified
}

// Change is one difference between a tree and what it was. It is also what a batch is to
// do at one path. As JSON it is what the command line prints.
type Change struct {
	Path string `json:"path"`           // relative to the tree's root
	From string `json:"from,omitempty"` // where it was: of a renamed node, and of a directory that replaced another node
	Kind Kind   `json:"kind"`           // may be "" in a batch
	Was  State  `json:"-"`              // at Path
	Is   State  `json:"-"`

	// Text is the change in the unified format, or "" if it was not asked for. Lacks says,
	// for people, what of the change Text leaves out; "" means nothing.
	Text  string `json:"text,omitempty"`
	Lacks string `json:"lacks,omitempty"`

	// Content opens the new content of a file, and Old the old one. A link whose target is
	// not known has it there. Both may be nil where the caller does not need them. A batch
	// needs Content for a content that no file of the batch has in Was.
	Content func(context.Context) (io.ReadCloser, error) `json:"-"`
	Old     func(context.Context) (io.ReadCloser, error) `json:"-"`
}

// State is what is at a path. The zero State means nothing. States can be compared with
// ==.
type State struct {
	Kind    vfs.Kind    // FileKind, DirKind or LinkKind; vfs.Other (0) for nothing
	Version vfs.Version // of a file; zero if it is not known
	Exec    bool        // of a file: its owner may execute it
	Target  string      // of a link, "" if it is not known; of a submodule, which is a directory, its commit
}

// Foreign is the Kind, in a [Conflict], of a node that is neither file, directory nor
// link, or of a file too long to have a version.
const Foreign vfs.Kind = 255

// Absent reports whether s is nothing.
func (s State) Absent() bool { return s == State{} }

func (s State) String() string {
	switch {
	case s.Absent():
		return "nothing"
	case s.Kind == vfs.FileKind && s.Exec:
		return "executable file"
	}
	return s.Kind.String()
}

// StateOf returns the state of n. It answers tooLarge for a file that is too long to
// have a version, and any error of n.
func StateOf(ctx context.Context, n vfs.Node) (s State, err error) {
	s.Kind = vfs.KindOf(n)
	switch n := n.(type) {
	case vfs.File:
		info, err := n.Stat(ctx)
		if err != nil {
			return State{}, err
		}
		s.Exec = info.Exec
		s.Version, err = vfs.VersionOf(ctx, n)
		return s, err
	case vfs.Link:
		s.Target, err = n.Target(ctx)
	}
	return s, err
}

// Reader returns a reader of the whole of c, for a Change's Content. It implements
// io.ReaderAt, too, and has c's Size. Close also closes more.
func Reader(c vfs.Content, more ...io.Closer) io.ReadCloser {
	return &reader{io.NewSectionReader(c, 0, c.Size()), append([]io.Closer{c}, more...)}
}

// ReadFile returns a [Reader] of f's content. It takes over f, also if it fails.
func ReadFile(ctx context.Context, f vfs.File) (io.ReadCloser, error) {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return Reader(c, f), nil
}

type reader struct {
	*io.SectionReader
	closers []io.Closer
}

func (r *reader) Close() (err error) {
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Skipped is an entry of a tree that was left out, and why.
type Skipped struct {
	Path string // relative to the tree
	Why  string // for people
}

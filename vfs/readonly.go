package vfs

import (
	"context"
	"io"
)

// ImmutableNode is embedded by the nodes of a store that never changes. It implements
// [Immutable].
type ImmutableNode struct{}

// Immutable implements [Immutable].
func (ImmutableNode) Immutable() bool { return true }

// ImmutableDir is embedded by a directory of a store that never changes. Every change
// answers readOnly. The store's type adds Stat, Close, Lookup and List to be a [Dir].
// [NewImmutableDir] adds Stat and Close too.
type ImmutableDir struct{ ImmutableNode }

// Create implements [Dir].
func (ImmutableDir) Create(context.Context, string) (File, error) { return nil, ReadOnly }

// Mkdir implements [Dir].
func (ImmutableDir) Mkdir(context.Context, string) (Dir, error) { return nil, ReadOnly }

// Replace implements [Dir]. It reads nothing.
func (ImmutableDir) Replace(context.Context, string, io.Reader, If) (Version, error) {
	return Version{}, ReadOnly
}

// Remove implements [Dir].
func (ImmutableDir) Remove(context.Context, string, If) error { return ReadOnly }

// Rename implements [Dir].
func (ImmutableDir) Rename(context.Context, string, Dir, string, If, If) error { return ReadOnly }

// Symlink implements [Symlinker].
func (ImmutableDir) Symlink(context.Context, string, string) error { return ReadOnly }

// Install implements [Installer].
func (ImmutableDir) Install(context.Context, string, io.Reader, bool, If) (Version, error) {
	return Version{}, ReadOnly
}

// ImmutableFile is embedded by a file of a store that never changes. Every change
// answers readOnly. The store's type adds Stat, Close, ReadAt and Sync to be a [File].
// Its Sync has nothing to do, but answers stale once the file is closed.
// [NewImmutableFile] does all of that.
type ImmutableFile struct{ ImmutableNode }

// WriteAt implements [File].
func (ImmutableFile) WriteAt(context.Context, []byte, int64, If) (int, error) { return 0, ReadOnly }

// Truncate implements [File].
func (ImmutableFile) Truncate(context.Context, int64, If) error { return ReadOnly }

// SetAttributes implements [Attributer].
func (ImmutableFile) SetAttributes(context.Context, Attributes, If) error { return ReadOnly }

// Append implements [Appender].
func (ImmutableFile) Append(context.Context, []byte, If) (int64, error) { return 0, ReadOnly }

// Replace implements [File].
func (ImmutableFile) Replace(context.Context, io.Reader, If) (Version, error) {
	return Version{}, ReadOnly
}

// Watch implements [Watcher]: nobody changes anything.
func (ImmutableDir) Watch(context.Context, Watch) (Watching, error) { return Unwatched{}, nil }

package cas

import (
	"context"
	"io"
	"iter"
	"sync/atomic"

	"capd/backend/cas/internal/recent"
	"capd/vfs"
)

// Open returns the tree below root, which never changes: every change answers
// readOnly. A name or a blob that the tree says is there and the store no longer has is
// corrupt. In a [Store] the tree is kept from [Store.Collect] until the Dir and all
// nodes found below it are closed. It answers notFound, and corrupt when root is no
// directory.
func Open(ctx context.Context, b Blobs, root Digest) (vfs.Dir, error) {
	t := &tree{blobs: b, release: func() {}, directories: recent.New[Digest, *directory](maxDirectories, nil)}
	if l, ok := b.(leaser); ok {
		var err error
		if t.release, err = l.lease(ctx, root); err != nil {
			return nil, err
		}
	}
	if _, err := t.directory(ctx, root); err != nil {
		t.release()
		return nil, err
	}
	t.users.Store(1)
	return &dir{ref: ref{tree: t}, digest: root}, nil
}

// maxDirectories is how much memory a tree may use for the directories that were read,
// in bytes, roughly.
const maxDirectories = 64 << 20

// tree is an open tree.
type tree struct {
	blobs       Blobs
	release     func()
	users       atomic.Int64 // nodes that are not closed
	directories *recent.Cache[Digest, *directory]
}

// directory reads the directory at d, unless it was read lately.
func (t *tree) directory(ctx context.Context, d Digest) (*directory, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if known, ok := t.directories.Get(d, nil); ok {
		return known, nil
	}
	if vfs.IsTrying(ctx) {
		return nil, vfs.ErrWouldBlock
	}
	read, err := readDirectory(ctx, t.blobs, d)
	if err != nil {
		return nil, err
	}
	t.directories.Add(d, read, read.weight())
	return read, nil
}

// readDirectory answers notFound, corrupt and tooLarge.
func readDirectory(ctx context.Context, b Blobs, d Digest) (*directory, error) {
	if d.Size > MaxDirectory {
		return nil, errDirectorySize
	}
	c, err := b.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	message := make([]byte, d.Size)
	if _, err := io.ReadFull(io.NewSectionReader(c, 0, d.Size), message); err != nil {
		return nil, err
	}
	return decode(message)
}

// lost makes corrupt of a missing blob: the tree says that it is there.
func lost(err error) error {
	if vfs.CodeOf(err) == vfs.NotFound {
		return vfs.Errorf(vfs.Corrupt, "the store no longer has this content; put the tree again")
	}
	return err
}

// ref is one reference to a node of a tree.
type ref struct {
	tree   *tree
	closed atomic.Bool
}

// Close implements vfs.Node.
func (r *ref) Close() error {
	if r.closed.CompareAndSwap(false, true) && r.tree.users.Add(-1) == 0 {
		r.tree.release()
	}
	return nil
}

// Tries implements vfs.Trier.
func (r *ref) Tries() bool { return true }

// Immutable implements vfs.Immutable.
func (r *ref) Immutable() bool { return true }

func (r *ref) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.closed.Load() {
		return vfs.At("", vfs.Stale)
	}
	return nil
}

// derive counts a node that was found through r.
func (r *ref) derive() (*tree, error) {
	for {
		n := r.tree.users.Load()
		if n == 0 || r.closed.Load() {
			return nil, vfs.At("", vfs.Stale)
		}
		if r.tree.users.CompareAndSwap(n, n+1) {
			return r.tree, nil
		}
	}
}

type dir struct {
	ref
	digest Digest
	depth  int                       // names from the root
	here   atomic.Pointer[directory] // once it was read
}

var (
	_ vfs.Dir       = (*dir)(nil)
	_ vfs.Symlinker = (*dir)(nil)
	_ vfs.Installer = (*dir)(nil)
)

// Stat implements vfs.Node.
func (d *dir) Stat(ctx context.Context) (vfs.Info, error) {
	if err := d.check(ctx); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Kind: vfs.DirKind}, nil
}

func (d *dir) read(ctx context.Context) (*directory, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	if here := d.here.Load(); here != nil {
		return here, nil
	}
	here, err := d.tree.directory(ctx, d.digest)
	if err != nil {
		return nil, lost(err)
	}
	d.here.Store(here)
	return here, nil
}

// Lookup implements vfs.Dir. A directory deeper than vfs.MaxDepth is corrupt.
func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	here, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	n := here.find(name)
	switch {
	case n == nil:
		return nil, vfs.At("", vfs.NotFound)
	case d.depth >= vfs.MaxDepth:
		return nil, vfs.Errorf(vfs.Corrupt, "the stored tree is deeper than %d names", vfs.MaxDepth)
	}
	t, err := d.derive()
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case vfs.DirKind:
		return &dir{ref: ref{tree: t}, digest: n.digest, depth: d.depth + 1}, nil
	case vfs.LinkKind:
		return &link{ref: ref{tree: t}, target: n.target}, nil
	}
	return &file{ref: ref{tree: t}, digest: n.digest, exec: n.exec}, nil
}

// List implements vfs.Dir.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		here, err := d.read(ctx)
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		for i := range here.nodes {
			if err := ctx.Err(); err != nil {
				yield(vfs.Entry{}, err)
				return
			}
			if !yield(vfs.Entry{Name: here.nodes[i].name, Kind: here.nodes[i].kind}, nil) {
				return
			}
		}
	}
}

// Create implements vfs.Dir.
func (d *dir) Create(context.Context, string) (vfs.File, error) { return nil, vfs.ReadOnly }

// Mkdir implements vfs.Dir.
func (d *dir) Mkdir(context.Context, string) (vfs.Dir, error) { return nil, vfs.ReadOnly }

// Replace implements vfs.Dir.
func (d *dir) Replace(context.Context, string, io.Reader, vfs.If) (vfs.Version, error) {
	return vfs.Version{}, vfs.ReadOnly
}

// Remove implements vfs.Dir.
func (d *dir) Remove(context.Context, string, vfs.If) error { return vfs.ReadOnly }

// Rename implements vfs.Dir.
func (d *dir) Rename(context.Context, string, vfs.Dir, string, vfs.If, vfs.If) error {
	return vfs.ReadOnly
}

// Symlink implements vfs.Symlinker.
func (d *dir) Symlink(context.Context, string, string) error { return vfs.ReadOnly }

// Install implements vfs.Installer.
func (d *dir) Install(context.Context, string, io.Reader, bool, vfs.If) (vfs.Version, error) {
	return vfs.Version{}, vfs.ReadOnly
}

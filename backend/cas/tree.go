package cas

import (
	"context"
	"io"
	"iter"
	"sync/atomic"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// Open returns the tree below root. It never changes: every change answers readOnly. A
// name or a blob that the tree has and the store lacks is corrupt. A [Store] keeps the
// tree from [Store.Collect] until the Dir and all nodes found below it are closed. Open
// answers notFound, and corrupt when root is not a directory.
func Open(ctx context.Context, b Blobs, root Digest) (vfs.Dir, error) {
	t := &tree{blobs: b, release: func() {}, readings: recent.New[Digest, reading](maxReadings, nil)}
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

// Dup returns another reference to d, a directory of a tree from [Open]. It answers
// stale when d is closed.
func Dup(d vfs.Dir) (vfs.Dir, error) {
	of, ok := d.(*dir)
	if !ok {
		return nil, vfs.Errorf(vfs.Unsupported, "this is not a directory of a stored tree")
	}
	t, err := of.derive()
	if err != nil {
		return nil, err
	}
	return &dir{ref: ref{tree: t}, digest: of.digest, depth: of.depth}, nil
}

// maxReadings is about how many bytes of memory a tree may use for directories it has
// read.
const maxReadings = 64 << 20

// tree is an open tree.
type tree struct {
	blobs    Blobs
	release  func()
	users    atomic.Int64 // open nodes
	readings *recent.Cache[Digest, reading]
}

// directory reads the directory at d, unless it is cached.
func (t *tree) directory(ctx context.Context, d Digest) (*directory, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if known, ok := t.readings.Get(d, nil); ok {
		return known.here, known.err
	}
	if vfs.IsTrying(ctx) {
		return nil, vfs.ErrWouldBlock
	}
	r, err := read(ctx, t.blobs, d)
	if err != nil {
		return nil, err
	}
	t.readings.Add(d, r, r.weight())
	return r.here, r.err
}

// readDirectory answers notFound, corrupt and tooLarge.
func readDirectory(ctx context.Context, b Blobs, d Digest) (*directory, error) {
	r, err := read(ctx, b, d)
	if err != nil {
		return nil, err
	}
	return r.here, r.err
}

// reading is the result of reading a directory's message; it is always the same.
type reading struct {
	here *directory
	err  error // corrupt or tooLarge, if it is not a directory
}

// weight returns about how many bytes of memory r needs.
func (r reading) weight() int64 {
	if r.err != nil {
		return 512
	}
	return r.here.weight()
}

// largeMessage is the size, in bytes, from which messages are read one at a time in
// this process: each needs several times as much memory.
const largeMessage = 1 << 20

var readsLarge = make(chan struct{}, 1)

// read reads the directory at d. An error is the store's, and may not occur next time.
func read(ctx context.Context, b Blobs, d Digest) (reading, error) {
	if d.Size > MaxDirectory {
		return reading{err: errDirectorySize}, nil
	}
	c, err := b.Open(ctx, d)
	if err != nil {
		return reading{}, err
	}
	defer c.Close()
	if d.Size >= largeMessage { // Open has fetched it, so nobody waits for a machine
		select {
		case readsLarge <- struct{}{}:
			defer func() { <-readsLarge }()
		case <-ctx.Done():
			return reading{}, ctx.Err()
		}
	}
	message := make([]byte, d.Size)
	if _, err := io.ReadFull(io.NewSectionReader(c, 0, d.Size), message); err != nil {
		return reading{}, err
	}
	here, err := decode(message)
	return reading{here, err}, nil
}

// lost turns notFound for a blob into corrupt: the tree says that it exists.
func lost(err error) error {
	if vfs.CodeOf(err) == vfs.NotFound {
		return vfs.Errorf(vfs.Corrupt, "the store no longer has this content; put the tree again")
	}
	return err
}

// conceal returns err as a guest may see it. Where the store's words would reveal how a
// tree is stored, it keeps only the code. The words become the cause, for the host's
// log.
func conceal(err error) error {
	err = lost(err)
	switch c := vfs.CodeOf(err); c {
	case vfs.Corrupt, vfs.TooLarge, vfs.Invalid, vfs.Unsupported:
		shown := vfs.At("", c).(*vfs.Error)
		shown.Cause = err
		return shown
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
	vfs.ImmutableDir
	digest Digest
	depth  int                       // names from the root
	here   atomic.Pointer[directory] // set once it was read
}

var (
	_ vfs.Dir       = (*dir)(nil)
	_ vfs.Immutable = (*dir)(nil)
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
		return nil, conceal(err)
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
		return nil, conceal(errTooDeep)
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

var errTooDeep = vfs.Errorf(vfs.Corrupt, "the stored tree is deeper than %d names", vfs.MaxDepth)

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

package cas

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"runtime"
	"sync"
	"unicode/utf8"

	"capd/vfs"
	"capd/vfs/copier"
)

// PutOptions configure a Put. The zero value puts the whole tree.
type PutOptions struct {
	// Pin is the name under which to pin the root once it is stored; "" for none. If
	// the store is not a [Pinner] the answer is unsupported.
	Pin string
	// Bounds limit the Put. Beyond them it answers limit.
	Bounds Bounds
	// Special is called with the path of each entry that is neither file, directory nor
	// link. If it returns nil the entry is left out; an error ends the Put. If Special
	// is nil, such an entry is notRegular.
	Special func(path string) error
	// Progress is called after each node, never by two goroutines at once. It should
	// return soon.
	Progress func(Progress)
}

// Bounds limit the size of a Put. A field that is 0 or less means no bound.
type Bounds = copier.Limits

// Progress is how far a Put has come.
type Progress struct {
	copier.Progress
	NewBytes int64 // new to the store, in files and directories
}

// Put stores the tree below d and returns the digest of its root. It reads, hashes and
// stores in one pass, with bounded memory for each directory on the way, and sends the
// store only what it lacks. When Put returns, everything would survive a power cut. If
// Put fails, nothing was pinned. A file that is replaced meanwhile is stored as it was
// before or after; a file that is written in place, as it was read.
//
// Put answers invalid for a name or a link's target that is not valid UTF-8, which a
// Directory message cannot hold; limit for a tree deeper than vfs.MaxDepth or beyond
// the bounds; tooLarge for a directory of more than [MaxNodes] or whose message is
// longer than [MaxDirectory]; conflict for a file that becomes shorter meanwhile; and
// errors of d and b. The error's path is relative to d.
func Put(ctx context.Context, b Blobs, d vfs.Dir, o PutOptions) (Digest, error) {
	pinner, ok := b.(Pinner)
	if o.Pin != "" && !ok {
		return Digest{}, vfs.Errorf(vfs.Unsupported, "this store keeps no pins")
	}
	u, err := b.Begin(ctx)
	if err != nil {
		return Digest{}, err
	}
	defer u.Close() // after the pin: until then it keeps what it stored
	root, err := putTree(ctx, u, d, o)
	if err != nil {
		return Digest{}, err
	}
	if err := u.Commit(ctx); err != nil {
		return Digest{}, err
	}
	if o.Pin != "" {
		if err := pinner.Pin(ctx, o.Pin, root); err != nil {
			return Digest{}, err
		}
	}
	return root, nil
}

func putTree(ctx context.Context, u Upload, d vfs.Dir, o PutOptions) (Digest, error) {
	root := &pendingDir{u: u}
	err := copier.Copy(ctx, d, root, copier.Options{
		Limits:  o.Bounds,
		Workers: 2 * runtime.GOMAXPROCS(0), // half of them read or write
		Progress: func(p copier.Progress) {
			if o.Progress != nil {
				o.Progress(Progress{p, u.Stored()})
			}
		},
		Skip: func(e copier.Unread) error {
			switch code := vfs.CodeOf(e.Err); {
			case code == vfs.NotFound && !e.Partly: // removed meanwhile
				return nil
			case code == vfs.NotRegular && o.Special != nil:
				return o.Special(e.Path)
			}
			return e.Err
		},
	})
	return root.digest, err
}

// pendingDir is a directory that is not completely stored. It implements [copier.Sink].
type pendingDir struct {
	u      Upload
	parent *pendingDir // nil for the root
	name   string
	digest Digest // set at the end

	mu    sync.Mutex
	nodes []node
}

func (d *pendingDir) add(n node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
}

// checkUTF8 answers invalid for what a Directory message cannot hold.
func checkUTF8(what, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return vfs.Errorf(vfs.Invalid, "its %s is not valid UTF-8, which a stored tree needs", what)
}

// Mkdir implements copier.Sink.
func (d *pendingDir) Mkdir(_ context.Context, name string, _ vfs.Info) (copier.Sink, error) {
	return &pendingDir{u: d.u, parent: d, name: name}, checkUTF8("name", name)
}

// Link implements copier.Sink.
func (d *pendingDir) Link(_ context.Context, name, target string) error {
	err := cmp.Or(checkUTF8("name", name), vfs.CheckTarget(target), checkUTF8("target", target))
	if err == nil {
		d.add(node{kind: vfs.LinkKind, name: name, target: target})
	}
	return err
}

// File implements copier.Sink.
func (d *pendingDir) File(ctx context.Context, name string, f *copier.File) error {
	if err := checkUTF8("name", name); err != nil {
		return err
	}
	digest, err := d.u.Add(ctx, io.NewSectionReader(f, 0, f.Size()))
	if err == nil {
		d.add(node{kind: vfs.FileKind, name: name, digest: digest, exec: f.Info.Exec})
	}
	return err
}

// End implements copier.Sink.
func (d *pendingDir) End(ctx context.Context, whole bool) error {
	if !whole {
		return nil
	}
	return d.store(ctx)
}

func (d *pendingDir) store(ctx context.Context) error {
	here := directory{nodes: d.nodes}
	if _, ok := here.sort(); !ok {
		return vfs.Errorf(vfs.Invalid, "the directory lists a name twice")
	}
	if len(here.nodes) > MaxNodes {
		return errDirectoryNodes
	}
	message := here.encode(nil)
	if len(message) > MaxDirectory {
		return errDirectorySize
	}
	digest, err := d.u.Add(ctx, io.NewSectionReader(bytes.NewReader(message), 0, int64(len(message))))
	if err != nil {
		return err
	}
	d.digest, d.nodes = digest, nil
	if d.parent != nil {
		d.parent.add(node{kind: vfs.DirKind, name: d.name, digest: digest})
	}
	return nil
}

package git

import (
	"context"
	"crypto/sha1"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/recent"
	"capd/meter"
	"capd/vfs"
)

// objects reads the objects of a repository: in packs, loose, or in the repositories it
// borrows from. It checks every object that it reads against its id. Memory use does
// not grow with the packs. Safe for concurrent use.
//
// It replaces go-git's reader, which keeps every pack's index in memory and is several
// times slower than git on trees of small files.
type objects struct {
	dirs     []hostDir // objects directories, the repository's own first
	root     *os.Root  // contains the repository's own, for writing; nil if nothing is written
	confined bool      // borrowing is refused
	replaced map[plumbing.Hash]plumbing.Hash
	bases    *recent.Cache[base, whole]
	deltas   chan struct{} // held while the deltas of a large object are applied in memory

	mu    sync.Mutex // guards changes of packs
	packs atomic.Pointer[[]*pack]
	last  atomic.Pointer[pack] // where the last object was found
	done  bool
}

const (
	maxPacks = 256      // each needs two open files
	maxDelta = 1 << 30  // bytes of an object that must be in memory at once
	maxMeta  = 64 << 20 // bytes of a tree, a commit or a tag
)

var errTooLarge = vfs.Errorf(vfs.TooLarge, "this is larger than can be read here")

// openObjects opens the objects of a repository. It caches up to baseBytes of the
// objects on which deltas are based.
func openObjects(l layout, baseBytes int64) (*objects, error) {
	o := &objects{root: l.root, confined: l.common.root != nil, bases: recent.New[base, whole](baseBytes, nil), deltas: make(chan struct{}, 1)}
	if err := o.borrow(l.common.sub("objects"), 0); err != nil {
		return nil, err
	}
	o.packs.Store(&[]*pack{})
	return o, o.rescan()
}

// found is an object that was found: in a pack, or as an open file of its own.
type found struct {
	p     *pack
	off   int64
	loose *loose
}

// find looks for an object in the packs, then as a loose object, and then in new packs.
// It answers corrupt if there is none, since something names the object.
func (o *objects) find(id plumbing.Hash) (found, error) {
	for {
		packs := o.packs.Load()
		if p, off, err := o.findPacked(*packs, id); p != nil || err != nil {
			return found{p: p, off: off}, err
		}
		for _, dir := range o.dirs {
			l, err := openLoose(dir, id)
			switch {
			case err == nil:
				return found{loose: l}, nil
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir):
				return found{}, o.broken(id, err)
			}
		}
		if err := o.rescan(); err != nil {
			return found{}, err
		}
		if o.packs.Load() == packs {
			return found{}, missing(id)
		}
	}
}

// missing returns the error for an object that is named and does not exist. It wraps
// go-git's error.
func missing(id plumbing.Hash) error {
	return flawed(vfs.Corrupt, "object %s is missing from the repository; fetch it: %w", id, plumbing.ErrObjectNotFound)
}

func (o *objects) findPacked(packs []*pack, id plumbing.Hash) (*pack, int64, error) {
	last := o.last.Load()
	if last != nil {
		if off, ok, err := last.index.find(id); ok && err == nil {
			return last, off, nil
		}
	}
	for _, p := range packs {
		off, ok, err := p.index.find(id)
		switch {
		case errors.Is(err, vfs.Stale): // the pack is gone; rescan finds its successors
		case err != nil:
			return nil, 0, err
		case ok:
			o.last.Store(p)
			return p, off, nil
		}
	}
	return nil, 0, nil
}

// broken turns an error of reading an object into one for guests.
func (o *objects) broken(id plumbing.Hash, err error) error {
	if c := vfs.CodeOf(hidden(err)); c != vfs.Internal {
		return hidden(err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return vfs.Hide(err)
	}
	return corrupt(id, "cannot be read")
}

// again runs read, and runs it again if its pack was replaced and closed meanwhile.
func (o *objects) again(read func() error) error {
	for {
		err := read()
		if !errors.Is(err, vfs.Stale) || o.isDone() {
			return err
		}
	}
}

func (o *objects) isDone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done
}

func (o *objects) real(id plumbing.Hash) plumbing.Hash {
	if other, ok := o.replaced[id]; ok {
		return other
	}
	return id
}

// head returns the size of an object, which must have this kind.
func (o *objects) head(id plumbing.Hash, kind plumbing.ObjectType) (size int64, err error) {
	have, size, err := o.kind(id)
	if err == nil && have != kind {
		err = corrupt(id, "is a "+have.String()+" where a "+kind.String()+" is named")
	}
	return size, err
}

// kind returns the kind and the size of an object.
func (o *objects) kind(id plumbing.Hash) (kind plumbing.ObjectType, size int64, err error) {
	id = o.real(id)
	err = o.again(func() error {
		at, err := o.find(id)
		if err != nil {
			return err
		}
		if at.loose != nil {
			kind, size = at.loose.kind, at.loose.size
			at.loose.close()
			return nil
		}
		if kind, size, err = at.p.head(at.off); err != nil {
			return o.broken(id, err)
		}
		return nil
	})
	return kind, size, err
}

// read returns a whole object, or tooLarge above most bytes. The caller must not change
// the result.
func (o *objects) read(id plumbing.Hash, most int64) (kind plumbing.ObjectType, data []byte, err error) {
	id = o.real(id)
	err = o.again(func() error {
		at, err := o.find(id)
		if err != nil {
			return err
		}
		if at.loose != nil {
			kind, data, err = at.loose.all(most)
		} else {
			kind, data, err = at.p.read(at.off, most)
		}
		if err != nil {
			return o.broken(id, err)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	h := sha1.New()
	h.Write(objectHead(kind, int64(len(data))))
	h.Write(data)
	if plumbing.Hash(h.Sum(nil)) != id {
		return 0, nil, corrupt(id, "does not hold what its name says")
	}
	return kind, data, nil
}

// readAs is read of an object that must have this kind.
func (o *objects) readAs(id plumbing.Hash, kind plumbing.ObjectType, most int64) ([]byte, error) {
	have, data, err := o.read(id, most)
	if err == nil && have != kind {
		err = corrupt(id, "is a "+have.String()+" where a "+kind.String()+" is named")
	}
	return data, err
}

// copy writes a blob of any size to w. After a failure discard what was written.
func (o *objects) copy(ctx context.Context, w io.Writer, id plumbing.Hash) error {
	id = o.real(id)
	at, err := o.find(id)
	if err != nil {
		return err
	}
	kind, size, in := plumbing.AnyObject, int64(0), (*inflater)(nil)
	if at.loose != nil {
		defer at.loose.close()
		kind, size, in = at.loose.kind, at.loose.size, at.loose.in
	} else {
		head, err := at.p.at(at.off)
		if err != nil {
			return o.broken(id, err)
		}
		if head.isDelta() {
			head.in.release()
			return o.copyDelta(ctx, w, id)
		}
		defer head.in.release()
		kind, size, in = head.kind, head.size, head.in
	}
	if kind != plumbing.BlobObject {
		return corrupt(id, "is a "+kind.String()+" where a blob is named")
	}
	h := sha1.New()
	h.Write(objectHead(kind, size))
	out := &writer{ctx: ctx, w: io.MultiWriter(w, h)}
	_, err = io.CopyN(out, in.out, size)
	switch {
	case out.err != nil:
		return hidden(out.err)
	case err == nil:
		err = in.end()
	}
	if err != nil {
		return o.broken(id, err)
	}
	if plumbing.Hash(h.Sum(nil)) != id {
		return corrupt(id, "does not hold what its name says")
	}
	return nil
}

// copyDelta is copy for an object stored as a delta. Both the object and its base must
// be in memory, so only one is copied at a time.
func (o *objects) copyDelta(ctx context.Context, w io.Writer, id plumbing.Hash) error {
	select {
	case o.deltas <- struct{}{}:
		defer func() { <-o.deltas }()
	case <-ctx.Done():
		return ctx.Err()
	}
	data, err := o.readAs(id, plumbing.BlobObject, maxDelta)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// writer separates errors of writing from those of reading. Between writes it lets other
// calls have ctx's turn.
type writer struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (w *writer) Write(p []byte) (n int, err error) {
	if w.err = meter.Yield(w.ctx); w.err == nil {
		n, w.err = w.w.Write(p)
	}
	return n, w.err
}

// objectHead returns the header that precedes an object's data in the computation of
// its id.
func objectHead(kind plumbing.ObjectType, size int64) []byte {
	b := append(make([]byte, 0, 32), kind.Bytes()...)
	b = strconv.AppendInt(append(b, ' '), size, 10)
	return append(b, 0)
}

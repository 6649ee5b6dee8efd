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

	"capd/vfs"
)

// objects reads the objects of a repository, wherever they are: in packs, loose, or
// in the repositories that it borrows from. Every object that is read is held against
// its id. What is kept in memory does not grow with the packs. Safe for concurrent use.
//
// go-git's own reader keeps the index of every pack in memory, and reads a tree of small
// files in several times the time that git takes.
type objects struct {
	dirs     []hostDir // objects directories, the repository's own first
	root     *os.Root  // what the repository's own is below, for writing; nil: nothing is written
	confined bool      // others have no part in it
	replaced map[plumbing.Hash]plumbing.Hash
	bases    *lru[base, whole]
	deltas   chan struct{} // held while the deltas of a large object are applied, in memory

	mu    sync.Mutex // guards a change of packs
	packs atomic.Pointer[[]*pack]
	last  atomic.Pointer[pack] // where the last object was found
	done  bool
}

const (
	maxPacks = 256      // each takes two open files
	maxDelta = 1 << 30  // bytes of an object that has to be in memory at once
	maxMeta  = 64 << 20 // bytes of a tree, a commit or a tag
)

var errTooLarge = vfs.Errorf(vfs.TooLarge, "this is larger than can be read here")

// openObjects opens the objects of a repository, and keeps at most baseBytes of what
// deltas were based on.
func openObjects(l layout, baseBytes int64) (*objects, error) {
	o := &objects{root: l.root, confined: l.common.root != nil, bases: newLRU[base, whole](baseBytes, nil), deltas: make(chan struct{}, 1)}
	if err := o.borrow(l.common.sub("objects"), 0); err != nil {
		return nil, err
	}
	o.packs.Store(&[]*pack{})
	return o, o.rescan()
}

// found is where an object is: in a pack, or open by itself.
type found struct {
	p     *pack
	off   int64
	loose *loose
}

// find looks into the packs, then for a loose object, and then for new packs. It
// answers corrupt for an object that is not there, since something names it.
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

// missing is an object that is named and not there. It wraps go-git's word for that.
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
		case errors.Is(err, vfs.Stale): // gone since; rescan has the new ones
		case err != nil:
			return nil, 0, err
		case ok:
			o.last.Store(p)
			return p, off, nil
		}
	}
	return nil, 0, nil
}

// broken makes an error of reading an object one for guests.
func (o *objects) broken(id plumbing.Hash, err error) error {
	if c := vfs.CodeOf(hidden(err)); c != vfs.Internal {
		return hidden(err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return vfs.Hide(err)
	}
	return corrupt(id, "cannot be read")
}

// again runs read anew when the pack that it read from was closed under it, having been
// replaced.
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

// head returns the size of an object that must be of this kind.
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

// read returns an object whole, or tooLarge above most bytes. Nobody may change what
// it returns.
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

// readAs is read of an object that must be of this kind.
func (o *objects) readAs(id plumbing.Hash, kind plumbing.ObjectType, most int64) ([]byte, error) {
	have, data, err := o.read(id, most)
	if err == nil && have != kind {
		err = corrupt(id, "is a "+have.String()+" where a "+kind.String()+" is named")
	}
	return data, err
}

// copy writes a blob to w, however large. What has been written is worth nothing when it
// fails.
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
	out := &writer{w: io.MultiWriter(w, h)}
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

// copyDelta is copy for an object that is a delta to another. Both have to be in
// memory, so that it is one object's turn at a time.
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

// writer keeps the error of writing apart from that of what is copied.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) Write(p []byte) (n int, err error) {
	n, w.err = w.w.Write(p)
	return n, w.err
}

// objectHead is what stands before an object's data when its id is made.
func objectHead(kind plumbing.ObjectType, size int64) []byte {
	b := append(make([]byte, 0, 32), kind.Bytes()...)
	b = strconv.AppendInt(append(b, ' '), size, 10)
	return append(b, 0)
}

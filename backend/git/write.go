package git

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"
	"github.com/pjbgf/sha1cd"

	"capd/hostfile"
	"capd/vfs"
)

// put makes an object and returns its id. It reads from twice. It does not write an
// object that the repository has.
func (b *builder) put(ctx context.Context, kind plumbing.ObjectType, size int64, from io.ReaderAt) (plumbing.Hash, error) {
	id, err := identify(ctx, kind, size, from, io.Discard)
	if err != nil {
		return id, err
	}
	return id, b.keep(ctx, id, kind, size, from)
}

// keep is put for an object whose id is known.
func (b *builder) keep(ctx context.Context, id plumbing.Hash, kind plumbing.ObjectType, size int64, from io.ReaderAt) error {
	if ok, err := b.has(id); ok || err != nil {
		return err
	}
	return b.s.objects.write(ctx, id, kind, size, from)
}

// has reports whether the repository has an object, which the commit needs.
func (b *builder) has(id plumbing.Hash) (bool, error) {
	b.named[path.Join("objects", path.Dir(looseName(id)))] = true // its name may be too new to be on disk
	return b.s.objects.has(id)
}

// identify returns an object's id, and writes the object's data to also. Like git it
// answers invalid for data crafted to collide with another id.
func identify(ctx context.Context, kind plumbing.ObjectType, size int64, from io.ReaderAt, also io.Writer) (id plumbing.Hash, err error) {
	h := sha1cd.New().(sha1cd.CollisionResistantHash)
	h.Write(objectHead(kind, size))
	if _, err := vfs.Copy(ctx, io.MultiWriter(h, also), io.NewSectionReader(from, 0, size)); err != nil {
		return id, err
	}
	sum, collides := h.CollisionResistantSum(nil)
	if collides {
		return id, vfs.Errorf(vfs.Invalid, "this file was made to have the sha1 of another; git accepts no such file")
	}
	return plumbing.Hash(sum), nil
}

// flush returns when the names of all objects made or found would survive a power cut.
func (b *builder) flush() error {
	dirs := slices.Sorted(maps.Keys(b.named))
	return flushNames(b.s.objects.root, append(dirs, "objects")...)
}

// write writes a loose object. Until it is complete it has a name that git ignores. It
// answers busy if the data is not what the id says.
func (o *objects) write(ctx context.Context, id plumbing.Hash, kind plumbing.ObjectType, size int64, from io.ReaderAt) (err error) {
	name := path.Join("objects", looseName(id))
	if err := o.root.Mkdir(path.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return ambient(err)
	}
	staged := path.Join(path.Dir(name), "tmp_obj_"+rand.Text())
	f, err := o.root.OpenFile(staged, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return ambient(err)
	}
	defer func() {
		f.Close()
		if err != nil {
			_ = o.root.Remove(staged)
		}
	}()
	switch have, err := deflate(ctx, f, kind, size, from); {
	case err != nil:
		return hidden(err)
	case have != id:
		return vfs.Errorf(vfs.Busy, "a file was changed while it was committed; try again")
	}
	if err := f.Chmod(0o444); err != nil {
		return ambient(err)
	}
	if err := f.Sync(); err != nil {
		return ambient(err)
	}
	if err := f.Close(); err != nil {
		return ambient(err)
	}
	if err := o.root.Rename(staged, name); err != nil {
		return ambient(err)
	}
	return nil
}

// deflate writes an object to w as it is stored, and returns the id of what it wrote.
func deflate(ctx context.Context, w io.Writer, kind plumbing.ObjectType, size int64, from io.ReaderAt) (id plumbing.Hash, err error) {
	z := zlib.NewWriter(w)
	if _, err := z.Write(objectHead(kind, size)); err != nil {
		return id, err
	}
	if id, err = identify(ctx, kind, size, from, z); err != nil {
		return id, err
	}
	return id, z.Close()
}

// freshen makes git treat an object file as new, so that git does not remove objects
// that nothing refers to yet.
func (o *objects) freshen(file string) {
	now := time.Now()
	if rel, err := filepath.Rel(o.dirs[0].path, file); err == nil && filepath.IsLocal(rel) {
		_ = o.root.Chtimes(filepath.Join("objects", rel), now, now)
		return
	}
	_ = os.Chtimes(file, now, now) // fails if another user owns it; git then keeps the object in other ways
}

// has reports whether the repository has an object, and makes git keep it for a while.
func (o *objects) has(id plumbing.Hash) (bool, error) {
	at, err := o.find(id)
	switch {
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return false, nil
	case err != nil:
		return false, err
	case at.loose != nil: // it may not have been flushed
		err := hostfile.SyncNames(at.loose.f)
		at.loose.close()
		if err != nil {
			return false, nil // it is written again, and flushed
		}
		o.freshen(at.loose.path)
	default:
		o.freshen(strings.TrimSuffix(at.p.path, ".idx") + ".pack")
	}
	return true, nil
}

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
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"
	"github.com/pjbgf/sha1cd"

	"capd/vfs"
)

// source is the data of an object. It is read twice.
type source interface{ io.ReaderAt }

// put makes an object and returns its id. It does not write an object that the
// repository has.
func (b *builder) put(ctx context.Context, kind plumbing.ObjectType, size int64, from source) (plumbing.Hash, error) {
	id, err := identify(ctx, kind, size, from)
	if err != nil || !b.write {
		return id, err
	}
	if b.named == nil {
		b.named = map[string]bool{}
	}
	b.named[path.Join("objects", path.Dir(looseName(id)))] = true // its name may be too new to be on disk
	if ok, err := b.s.objects.has(id); ok || err != nil {
		return id, err
	}
	return id, b.s.objects.write(ctx, id, kind, size, from)
}

// identify returns an object's id. Like git it answers invalid for data crafted to
// collide with another id.
func identify(ctx context.Context, kind plumbing.ObjectType, size int64, from source) (id plumbing.Hash, err error) {
	h := sha1cd.New().(sha1cd.CollisionResistantHash)
	h.Write(objectHead(kind, size))
	if err := copyAll(ctx, h, from, size); err != nil {
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

// write writes a loose object. Until it is complete it has a name that git ignores.
func (o *objects) write(ctx context.Context, id plumbing.Hash, kind plumbing.ObjectType, size int64, from source) (err error) {
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
	z := zlib.NewWriter(f)
	if _, err := z.Write(objectHead(kind, size)); err != nil {
		return ambient(err)
	}
	if err := copyAll(ctx, z, from, size); err != nil {
		return hidden(err)
	}
	if err := z.Close(); err != nil {
		return ambient(err)
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

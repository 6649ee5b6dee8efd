package git

import (
	"context"
	"math"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

type file struct{ ref }

var (
	_ vfs.File      = (*file)(nil)
	_ vfs.Opener    = (*file)(nil)
	_ vfs.Appender  = (*file)(nil)
	_ vfs.Versioner = (*file)(nil)
	_ vfs.Replacer  = (*file)(nil)
)

// ReadAt implements vfs.File.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, vfs.ErrOffset
	}
	s := f.in.store
	if err := s.look(ctx); err != nil {
		return 0, err
	}
	it, err := f.item()
	if err == nil && it.data != nil {
		defer s.mu.RUnlock()
		return it.data.ReadAt(p, off)
	}
	s.mu.RUnlock()
	if err != nil {
		return 0, err
	}
	b, err := s.blobs.open(ctx, it.id)
	if err != nil {
		return 0, err
	}
	defer b.release()
	return b.ReadAt(p, off)
}

// WriteAt implements vfs.File. An empty p does not lengthen the file.
func (f *file) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (int, error) {
	if f.Immutable() {
		return 0, vfs.ReadOnly
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, vfs.ErrOffset
	}
	n := 0
	err := f.edit(ctx, c, func(size int64) (int64, writing) {
		if len(p) == 0 {
			return size, nil
		}
		return max(size, off+int64(len(p))), func(data *content) (err error) {
			n, err = data.writeAt(p, off)
			return err
		}
	})
	return n, err
}

// Append implements vfs.Appender.
func (f *file) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	err = f.edit(ctx, c, func(size int64) (int64, writing) {
		off = size
		if len(p) == 0 {
			return size, nil
		}
		return size + int64(len(p)), func(data *content) error {
			_, err := data.writeAt(p, data.size)
			return err
		}
	})
	if err != nil {
		return 0, err
	}
	return off, nil
}

// Truncate implements vfs.File.
func (f *file) Truncate(ctx context.Context, size int64, c vfs.If) error {
	if f.Immutable() {
		return vfs.ReadOnly
	}
	if size < 0 {
		return vfs.ErrOffset
	}
	return f.edit(ctx, c, func(old int64) (int64, writing) {
		if size == old {
			return size, nil
		}
		return size, func(data *content) error { return data.truncate(size) }
	})
}

// writing changes a content in place.
type writing func(*content) error

// edit changes f's content in place. plan returns the new size and how to change the
// content; nil means no change. If the content is in the repository, or somebody holds
// it open, edit copies it first.
func (f *file) edit(ctx context.Context, c vfs.If, plan func(size int64) (int64, writing)) error {
	s := f.in.store
	var copied *content // of the blob called id
	var id plumbing.Hash
	defer func() {
		if copied != nil {
			copied.release()
		}
	}()
	return s.change(ctx, func(tries int) (step, error) {
		it, err := f.item()
		if err != nil {
			return step{}, err
		}
		if err := s.meets(c, it, tries); err != nil {
			return step{}, err
		}
		old, err := s.size(it)
		if err != nil {
			return step{}, err
		}
		size, write := plan(old)
		switch {
		case write == nil:
			return step{apply: func() error { return nil }}, nil
		case size > maxFile:
			return step{}, errTooLong
		case it.data == nil && (copied == nil || id != it.id):
			return step{}, &need{func(ctx context.Context) error {
				fresh, err := s.copyOf(ctx, it.id)
				if err == nil {
					if copied != nil {
						copied.release()
					}
					copied, id = fresh, it.id
				}
				return err
			}}
		}
		return step{grows: vfs.Effect{Bytes: size - old}, apply: func() error {
			in, err := f.in.changeable()
			if err != nil {
				return err
			}
			data := it.data
			switch {
			case data == nil:
				data, copied = copied, nil
			case data.frozen.Load():
				data = data.fork()
			}
			if err := write(data); err != nil {
				if data != it.data {
					data.release()
				}
				return err
			}
			ms := nowMs()
			in.put(it.name, &item{entry: entry{name: it.name, mode: it.mode}, data: data, ms: ms}, max(in.ms, s.base.ms))
			return nil
		}}, nil
	})
}

// copyOf copies a blob into a content that can be changed.
func (s *Store) copyOf(ctx context.Context, id plumbing.Hash) (*content, error) {
	b, err := s.blobs.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer b.release()
	if b.size > maxFile {
		return nil, errTooLong
	}
	c := newContent(s.spool)
	err = copyAll(ctx, writerFunc(func(p []byte) (int, error) { return c.writeAt(p, c.size) }), b, b.size)
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// Sync implements vfs.File. Nothing written is in the repository before it is
// committed, so there is nothing to sync.
func (f *file) Sync(ctx context.Context) error {
	_, err := f.Stat(ctx)
	return err
}

// Version implements vfs.Versioner. It computes the version once for each content.
func (f *file) Version(ctx context.Context) (vfs.Version, error) {
	at, err := f.take(ctx)
	if err != nil {
		return vfs.Version{}, err
	}
	if at.data != nil {
		defer at.data.release()
		return at.data.sum(ctx)
	}
	return f.in.store.blobs.version(ctx, at.id)
}

// Open implements vfs.Opener. No later change of the file changes the content, not even
// a write in place.
func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	at, err := f.take(ctx)
	if err != nil {
		return nil, err
	}
	if at.data != nil {
		return &opened{ctx: ctx, r: at.data, size: at.data.size}, nil
	}
	b, err := f.in.store.blobs.open(ctx, at.id)
	if err != nil {
		return nil, err
	}
	return &opened{ctx: ctx, r: b, size: b.size}, nil
}

package memory

import (
	"context"
	"math"

	"capd/meter"
	"capd/vfs"
)

type file struct{ ref }

var (
	_ vfs.File      = (*file)(nil)
	_ vfs.Opener    = (*file)(nil)
	_ vfs.Appender  = (*file)(nil)
	_ vfs.Versioner = (*file)(nil)

	_ vfs.Attributer = (*file)(nil)
)

// ReadAt implements vfs.File.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, vfs.ErrOffset
	}
	var end error
	err = f.read(ctx, func(i *inode) { n, end = i.data.ReadAt(p, off) })
	if err != nil {
		return 0, err
	}
	return n, end
}

// WriteAt implements vfs.File. It writes all of p or nothing. An empty p does not
// lengthen the file.
func (f *file) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (int, error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, vfs.ErrOffset
	}
	err := f.edit(ctx, c, func(b *blob) (int64, func(*blob)) {
		if len(p) == 0 {
			return b.size, nil
		}
		return max(b.size, off+int64(len(p))), func(b *blob) { b.writeAt(p, off) }
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Append implements vfs.Appender.
func (f *file) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	err = f.edit(ctx, c, func(b *blob) (int64, func(*blob)) {
		off = b.size
		if len(p) == 0 {
			return b.size, nil
		}
		return b.size + int64(len(p)), func(b *blob) { b.writeAt(p, b.size) }
	})
	if err != nil {
		return 0, err
	}
	return off, nil
}

// Truncate implements vfs.File.
func (f *file) Truncate(ctx context.Context, size int64, c vfs.If) error {
	if size < 0 {
		return vfs.ErrOffset
	}
	return f.edit(ctx, c, func(b *blob) (int64, func(*blob)) {
		if size == b.size {
			return size, nil
		}
		return size, func(b *blob) { b.truncate(size) }
	})
}

// edit changes f's content in place. plan returns the new size and how to change the
// content; nil means no change. If somebody has the content open, edit changes a copy.
func (f *file) edit(ctx context.Context, c vfs.If, plan func(*blob) (size int64, change func(*blob))) error {
	s := f.in.store
	return s.change(ctx, func(tries int) (step, error) {
		n, err := f.node()
		if err != nil {
			return step{}, err
		}
		if err := meets(c, n, tries); err != nil {
			return step{}, err
		}
		size, change := plan(n.data)
		grows := size - n.data.size
		st := step{grows: vfs.Effect{Bytes: grows}, was: n.info(), apply: func() {}}
		if change != nil {
			st.needs = grows > 0 || len(n.data.readers) > 0
			st.apply = func() {
				if n.data.frozen.Load() {
					old := n.data
					n.data = old.fork()
					s.detach(old)
				}
				change(n.data)
				n.modified = nowMs()
			}
		}
		return st, nil
	})
}

// SetAttributes implements vfs.Attributer.
func (f *file) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	if err := a.CheckFor(f); err != nil {
		return err
	}
	return f.in.store.change(ctx, func(tries int) (step, error) {
		n, err := f.node()
		if err != nil {
			return step{}, err
		}
		if err := meets(c, n, tries); err != nil {
			return step{}, err
		}
		return step{was: n.info(), apply: func() {
			if a.Exec != nil {
				n.exec = *a.Exec
			}
			if a.ModifiedMs != nil {
				n.modified = *a.ModifiedMs
			}
		}}, nil
	})
}

// Sync implements vfs.File. It does nothing: memory does not survive a power cut.
func (f *file) Sync(ctx context.Context) error { return f.read(ctx, func(*inode) {}) }

// Version implements vfs.Versioner. It computes the version once for each content.
func (f *file) Version(ctx context.Context) (vfs.Version, error) {
	var b *blob
	var known *vfs.Version
	err := f.read(ctx, func(n *inode) {
		b, known = n.data, n.data.version.Load()
		if known == nil {
			b.frozen.Store(true)
		}
	})
	if err != nil {
		return vfs.Version{}, err
	}
	if known != nil {
		return *known, nil
	}
	return b.sum(ctx)
}

// Open implements vfs.Opener. No later change of the file changes the content, not even
// a write in place.
func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := f.in.store
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := f.node()
	if err != nil {
		return nil, err
	}
	who := meter.Of(ctx)
	if s.held.full(who) {
		return nil, errHeld
	}
	n.data.frozen.Store(true)
	r := &reader{n.data, s, who}
	n.data.readers = append(n.data.readers, r)
	return vfs.NewContent(ctx, r, n.data.size), nil
}

// reader is a blob held open. Reading it needs no lock, since the blob is frozen.
type reader struct {
	*blob
	store *Store
	who   *meter.Meter // the meter it counts in
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.store.closed(r)
	return nil
}

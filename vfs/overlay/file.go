package overlay

import (
	"context"
	"io"

	"capd/vfs"
)

type file struct{ *ref }

var (
	_ vfs.File      = (*file)(nil)
	_ vfs.Opener    = (*file)(nil)
	_ vfs.Appender  = (*file)(nil)
	_ vfs.Versioner = (*file)(nil)
	_ vfs.Trier     = (*file)(nil)

	_ vfs.Attributer = (*file)(nil)

	_ vfs.Link  = (*link)(nil)
	_ vfs.Trier = (*link)(nil)
)

// source is where the node at a reference's place is stored.
type source struct {
	node   vfs.Node // in the lower or the upper store; stays open with the reference, or until content is removed
	exec   bool     // of a file with content
	target string   // of a link made in the overlay, which has no node
	made   int64    // time of creation, in milliseconds since the Unix epoch

	content *content
}

// source returns where the file or link at r's place is stored.
func (r *ref) source(ctx context.Context) (st source, err error) {
	if err := r.o.look(ctx); err != nil {
		return st, err
	}
	path, below, err := r.origin(&st)
	r.o.mu.RUnlock()
	switch {
	case err != nil:
		return st, err
	case st.content != nil:
		f, err := r.o.contents.file(ctx, st.content)
		st.node = f
		return st, err
	case !below:
		return st, nil
	}
	st.node, err = r.window.at(ctx, r.o, path)
	if vfs.CodeOf(err) == vfs.NotDir {
		err = vfs.NotFound
	}
	if err == nil && vfs.KindOf(st.node) != r.kind {
		err = vfs.Stale
	}
	return st, err
}

// origin returns the lower path of the node at r's place, if below. Needs mu.
func (r *ref) origin(st *source) (path string, below bool, err error) {
	here, err := r.here()
	if err != nil {
		return "", false, err
	}
	n := here.children[r.name]
	switch {
	case n == nil || n.through() && !n.holds():
		path, below = here.implied(r.name)
		if !below {
			err = vfs.NotFound
		}
		return path, below, err
	case n.kind == gone:
		return "", false, vfs.NotFound
	case n.kind != r.kind:
		return "", false, vfs.Stale
	}
	st.exec, st.content, st.target, st.made = n.exec, n.content, n.target, n.modified
	return n.origin, n.below, nil
}

// read runs do on the file at f's place. If the content is removed while do runs, read
// runs it again on the new one.
func (f *file) read(ctx context.Context, do func(vfs.File, source) error) error {
	for {
		st, err := f.source(ctx)
		if err == nil {
			err = do(st.node.(vfs.File), st)
		}
		if st.content == nil || !lost(err) || ctx.Err() != nil {
			return err
		}
		switch now, again := f.source(ctx); {
		case again != nil && (now.content == nil || !lost(again)):
			return again
		case now.content != st.content:
		case vfs.CodeOf(err) == vfs.Stale:
			return err
		default:
			return errIndex // the only copy is missing
		}
	}
}

// lost reports the errors that the upper store returns for a removed content.
func lost(err error) bool { return missing(err) || vfs.CodeOf(err) == vfs.Stale }

// Stat implements vfs.Node.
func (f *file) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = f.read(ctx, func(at vfs.File, st source) error {
		if info, err = at.Stat(ctx); err == nil && st.content != nil {
			info.Exec = st.exec
		}
		return err
	})
	if err != nil {
		return vfs.Info{}, err
	}
	return info, nil
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, vfs.ErrOffset
	}
	err = f.read(ctx, func(at vfs.File, _ source) error {
		n, err = at.ReadAt(ctx, p, off)
		return err
	})
	return n, err
}

// Version implements vfs.Versioner.
func (f *file) Version(ctx context.Context) (v vfs.Version, err error) {
	err = f.read(ctx, func(at vfs.File, _ source) error {
		v, err = vfs.VersionOf(ctx, at)
		return err
	})
	return v, err
}

// Open implements vfs.Opener. A change made in the overlay does not change the content,
// if the store that keeps it holds contents open.
func (f *file) Open(ctx context.Context) (c vfs.Content, err error) {
	err = f.read(ctx, func(at vfs.File, _ source) error {
		c, err = vfs.Open(ctx, at)
		return err
	})
	return c, err
}

// Sync implements vfs.File.
func (f *file) Sync(ctx context.Context) error {
	err := f.read(ctx, func(at vfs.File, st source) error { // nobody waits for it
		if st.content == nil {
			_, err := at.Stat(ctx)
			return err
		}
		return at.Sync(inside(ctx))
	})
	if err != nil {
		return err
	}
	return f.o.oneTurn(ctx, func(ctx context.Context) error { return f.o.index.sync(inside(ctx)) })
}

// Replace implements vfs.File.
func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	return f.replace(ctx, f.name, r, nil, c)
}

type link struct{ *ref }

// Stat implements vfs.Node.
func (l *link) Stat(ctx context.Context) (vfs.Info, error) {
	st, err := l.source(ctx)
	if err != nil {
		return vfs.Info{}, err
	}
	if st.node == nil {
		return vfs.Info{Kind: vfs.LinkKind, ModifiedMs: st.made}, nil
	}
	return st.node.Stat(ctx)
}

// Target implements vfs.Link.
func (l *link) Target(ctx context.Context) (string, error) {
	st, err := l.source(ctx)
	if err != nil {
		return "", err
	}
	if st.node == nil {
		return st.target, nil
	}
	return st.node.(vfs.Link).Target(ctx)
}

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
	_ vfs.Replacer  = (*file)(nil)
	_ vfs.Trier     = (*file)(nil)
	_ vfs.Link      = (*link)(nil)
	_ vfs.Trier     = (*link)(nil)
)

// standing is what is at a reference's place.
type standing struct {
	node   vfs.Node // of the lower or the upper store; stays open with the reference, or until content is removed
	exec   bool     // of a file with content
	target string   // of a link that was made, which has no node
	made   int64    // when, in milliseconds since the Unix epoch

	content *content
}

// stands returns what is at r's place, which is a file or a link.
func (r *ref) stands(ctx context.Context) (st standing, err error) {
	if err := r.o.look(ctx); err != nil {
		return st, err
	}
	path, below, err := r.source(&st)
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

// source says where what is at r's place comes from: the lower path, if below. mu is
// held.
func (r *ref) source(st *standing) (path string, below bool, err error) {
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

// read runs do on the file at f's place. When the content goes while it runs, it runs
// again on what there is then.
func (f *file) read(ctx context.Context, do func(vfs.File, standing) error) error {
	for {
		st, err := f.stands(ctx)
		if err == nil {
			err = do(st.node.(vfs.File), st)
		}
		if st.content == nil || !lost(err) || ctx.Err() != nil {
			return err
		}
		switch now, again := f.stands(ctx); {
		case again != nil && (now.content == nil || !lost(again)):
			return again
		case now.content != st.content:
		case vfs.CodeOf(err) == vfs.Stale:
			return err
		default:
			return errIndex // it is in the tree, and nowhere else
		}
	}
}

// lost reports what the upper store answers for a content that was removed.
func lost(err error) bool { return missing(err) || vfs.CodeOf(err) == vfs.Stale }

// Stat implements vfs.Node.
func (f *file) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = f.read(ctx, func(at vfs.File, st standing) error {
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
	err = f.read(ctx, func(at vfs.File, _ standing) error {
		n, err = at.ReadAt(ctx, p, off)
		return err
	})
	return n, err
}

// Version implements vfs.Versioner.
func (f *file) Version(ctx context.Context) (v vfs.Version, err error) {
	err = f.read(ctx, func(at vfs.File, _ standing) error {
		v, err = vfs.VersionOf(ctx, at)
		return err
	})
	return v, err
}

// Open implements vfs.Opener. What is changed in the overlay does not change the
// content, as far as the store that keeps it holds contents open.
func (f *file) Open(ctx context.Context) (c vfs.Content, err error) {
	err = f.read(ctx, func(at vfs.File, _ standing) error {
		c, err = vfs.Open(ctx, at)
		return err
	})
	return c, err
}

// Sync implements vfs.File.
func (f *file) Sync(ctx context.Context) error {
	err := f.read(ctx, func(at vfs.File, st standing) error { // for which nobody waits
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

// Replace implements vfs.Replacer. It makes no file where there is none.
func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	return f.replace(ctx, f.name, r, nil, c)
}

type link struct{ *ref }

// Stat implements vfs.Node.
func (l *link) Stat(ctx context.Context) (vfs.Info, error) {
	st, err := l.stands(ctx)
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
	st, err := l.stands(ctx)
	if err != nil {
		return "", err
	}
	if st.node == nil {
		return st.target, nil
	}
	return st.node.(vfs.Link).Target(ctx)
}

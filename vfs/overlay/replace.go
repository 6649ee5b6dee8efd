package overlay

import (
	"context"
	"io"

	"capd/vfs"
)

// Replace implements vfs.Dir. It copies nothing from the lower tree.
func (d *dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, nil, c)
}

// Install implements vfs.Installer.
func (d *dir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, &exec, c)
}

// replace puts r's content at name. exec says whether it is executable; nil leaves that
// as it was.
func (r *ref) replace(ctx context.Context, name string, from io.Reader, exec *bool, c vfs.If) (vfs.Version, error) {
	if err := vfs.CheckName(name); err != nil {
		return vfs.Version{}, err
	}
	if err := r.foresee(ctx, name, c); err != nil {
		return vfs.Version{}, err
	}
	content, version, err := r.o.contents.stage(ctx, r.o.bounded(from))
	if err != nil {
		return vfs.Version{}, err
	}
	fresh := &staged{content: content, of: &r.o.contents, version: version}
	err = r.o.change(ctx, func(ctx context.Context) (*step, error) {
		s, err := r.replaceable(ctx, name, c)
		if err != nil {
			return nil, err
		}
		defer s.close()
		st, err := s.replaces(ctx, fresh, exec)
		if err == nil {
			st.made = func() { fresh.used = true }
		}
		return st, err
	})
	if !fresh.used {
		r.o.contents.remove(ctx, content)
	}
	if err != nil {
		return vfs.Version{}, err
	}
	return version, nil
}

// foresee returns the error that a replacement would have now, before its reader, which
// may be slow, is read.
func (r *ref) foresee(ctx context.Context, name string, c vfs.If) error {
	return r.o.inTurn(ctx, func(ctx context.Context) error {
		s, err := r.replaceable(ctx, name, c)
		if err == nil {
			s.close()
		}
		return err
	})
}

// replaceable returns the spot called name, if a file can be put there.
func (r *ref) replaceable(ctx context.Context, name string, c vfs.If) (*spot, error) {
	s, err := r.spot(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case s.kind == gone && r.kind == vfs.FileKind: // a File never creates
		err = vfs.NotFound
	case s.kind == gone:
		err = r.o.checkNew(name, vfs.FileKind)
	case r.kind == vfs.FileKind && s.kind != vfs.FileKind:
		err = vfs.Stale
	case s.kind == vfs.DirKind:
		err = vfs.IsDir
	case s.kind != vfs.FileKind:
		err = vfs.NotRegular
	}
	if err == nil {
		err = s.meets(ctx, c)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// staged is a whole content that was stored to be put in place.
type staged struct {
	*content
	of      *contents
	version vfs.Version
	size    int64 // set by the first plan
	used    bool  // it was put in place
}

var _ vfs.StagedContent = (*staged)(nil)

// Size implements vfs.StagedContent.
func (s *staged) Size() int64 { return s.size }

// Version implements vfs.StagedContent.
func (s *staged) Version() vfs.Version { return s.version }

// Open implements vfs.StagedContent.
func (s *staged) Open(ctx context.Context) (vfs.Content, error) {
	f, err := s.of.file(ctx, s.content)
	if err != nil {
		return nil, err
	}
	return vfs.Open(inside(ctx), f)
}

// Sync implements vfs.StagedContent. The upper store has synced it.
func (s *staged) Sync(context.Context) error { return nil }

// replaces plans to make fresh the file at s.
func (s *spot) replaces(ctx context.Context, fresh *staged, exec *bool) (*step, error) {
	was, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	st := &step{sync: true, was: was, whole: fresh}
	f, err := s.ref.o.contents.file(ctx, fresh.content)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat(inside(ctx))
	if err != nil {
		return nil, err
	}
	if st.edits, err = s.remember(ctx); err != nil {
		return nil, err
	}
	n := state{Kind: vfs.FileKind, Content: fresh.id}
	switch {
	case exec != nil:
		n.Exec = *exec
	case s.kind != gone:
		if n.Exec, err = s.executable(ctx); err != nil {
			return nil, err
		}
	}
	fresh.size, st.grows.Bytes = info.Size, info.Size-was.Size
	st.edits = append(st.edits, sets(s.path, n))
	if s.kind == gone {
		st.grows.Nodes = 1
		st.edits = append(st.edits, touches(s.parent, nowMs()))
	}
	return st, nil
}

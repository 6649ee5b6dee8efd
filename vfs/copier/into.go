package copier

import (
	"context"
	"io"

	"capd/vfs"
)

// Into returns a [Sink] that adds what is copied to d, which the caller closes. A directory
// that is there already is added to. A file that is there is replaced, and readers see the
// old content or the new. left is called with what d does not take: that is left out if left
// returns nil, and otherwise its error ends the copy. left may be called from several
// goroutines at once.
//
// A Dir that cannot set the executable bit together with the content gets it afterwards. What
// left is told of then is written, but not executable.
func Into(d vfs.Dir, left func(Unread) error) Sink { return &into{top: d, to: d, left: left} }

// into is a directory that is added to.
type into struct {
	top  vfs.Dir // that of Into: a link may lead up to there
	to   vfs.Dir
	path string
	left func(Unread) error
	ours bool // it was opened here
}

// Mkdir implements [Sink].
func (s *into) Mkdir(ctx context.Context, name string, _ vfs.Info) (Sink, error) {
	d, err := s.to.Mkdir(ctx, name)
	if vfs.CodeOf(err) == vfs.Exists {
		d, err = s.existing(ctx, name)
	}
	if err != nil {
		return nil, s.leave(name, err)
	}
	return &into{top: s.top, to: d, path: vfs.Join(s.path, name), left: s.left, ours: true}, nil
}

// existing opens the directory called name. It does not follow a link.
func (s *into) existing(ctx context.Context, name string) (vfs.Dir, error) {
	n, err := s.to.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	d, ok := n.(vfs.Dir)
	if !ok {
		n.Close()
		return nil, vfs.Errorf(vfs.NotDir, "a directory cannot replace it; move it away first")
	}
	return d, nil
}

// File implements [Sink].
func (s *into) File(ctx context.Context, name string, f *File) error {
	content := func() io.Reader { return io.NewSectionReader(f, 0, f.Size()) }
	_, err := vfs.Install(ctx, s.to, name, content(), f.Info.Exec, vfs.If{})
	if vfs.CodeOf(err) == vfs.Unsupported {
		if _, err = s.to.Replace(ctx, name, content(), vfs.If{}); err == nil && f.Info.Exec {
			err = s.executable(ctx, name)
		}
	}
	return s.leave(name, err)
}

// executable sets the bit of a file that was written.
func (s *into) executable(ctx context.Context, name string) error {
	n, err := s.to.Lookup(ctx, name)
	if err != nil {
		return err
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return errAltered
	}
	yes := true
	return vfs.SetAttributes(ctx, f, vfs.Attributes{Exec: &yes}, vfs.If{})
}

// Link implements [Sink].
func (s *into) Link(ctx context.Context, name, target string) error {
	err := s.makeLink(ctx, name, target)
	if vfs.CodeOf(err) == vfs.Exists && leadsTo(ctx, s.to, name, target) {
		err = nil
	}
	return s.leave(name, err)
}

func (s *into) makeLink(ctx context.Context, name, target string) error {
	if m, ok := s.top.(vfs.LinkMaker); ok {
		return m.MakeLink(ctx, vfs.Join(s.path, name), target)
	}
	return vfs.Symlink(ctx, s.to, name, target)
}

// leadsTo reports whether name is a link with the text target.
func leadsTo(ctx context.Context, d vfs.Dir, name, target string) bool {
	l, err := vfs.LookupAs[vfs.Link](ctx, d, name, vfs.Exists)
	if err != nil {
		return false
	}
	defer l.Close()
	text, err := l.Target(ctx)
	return err == nil && text == target
}

// End implements [Sink].
func (s *into) End(context.Context, bool) error {
	if s.ours {
		return s.to.Close()
	}
	return nil
}

// leave asks what becomes of a copy in which name failed.
func (s *into) leave(name string, err error) error {
	if err == nil {
		return nil
	}
	path := vfs.Join(s.path, name)
	if err := s.left(Unread{Path: path, Err: at(path, err)}); err != nil {
		return err
	}
	return ErrLeftOut
}

package copier

import (
	"bytes"
	"context"
	"io"

	"capd/vfs"
)

// dirSink is a directory that is copied to another Dir. What appeared since plan was made,
// or is of another kind now, is not copied.
type dirSink struct {
	to   vfs.Dir
	plan *node
}

// Mkdir implements [Sink].
func (s *dirSink) Mkdir(ctx context.Context, name string, _ vfs.Info) (Sink, error) {
	n, err := s.plan.find(name).as(vfs.DirKind)
	if err != nil {
		return nil, err
	}
	return mkdir(ctx, s.to, name, n)
}

// File implements [Sink].
func (s *dirSink) File(ctx context.Context, name string, f *File) error {
	n, err := s.plan.find(name).as(vfs.FileKind)
	if err != nil {
		return err
	}
	return put(ctx, Spot{s.to, name, vfs.If{Absent: true}}, f, n)
}

// Link implements [Sink].
func (s *dirSink) Link(ctx context.Context, name, target string) error {
	n, err := s.plan.find(name).as(vfs.LinkKind)
	if err != nil {
		return err
	}
	return symlink(ctx, s.to, name, target, n)
}

// End implements [Sink].
func (s *dirSink) End(context.Context, bool) error {
	if _, staged := s.to.(vfs.StagedDir); !staged { // which is yet to be placed
		s.to.Close()
	}
	return nil
}

// spotSink is the directory with the target of a transfer. What is made in it has the
// target's name.
type spotSink struct{ t *transfer }

// Mkdir implements [Sink].
func (s spotSink) Mkdir(ctx context.Context, _ string, _ vfs.Info) (Sink, error) {
	n, err := s.t.top.as(vfs.DirKind)
	if err != nil {
		return nil, err
	}
	s.t.staged, err = vfs.StageDir(ctx, s.t.to.Dir, s.t.to.Name)
	if vfs.CodeOf(err) == vfs.Unsupported {
		return mkdir(ctx, s.t.to.Dir, s.t.to.Name, n)
	}
	if err != nil {
		return nil, err
	}
	return &dirSink{s.t.staged, n}, nil
}

// File implements [Sink].
func (s spotSink) File(ctx context.Context, _ string, f *File) error {
	n, err := s.t.top.as(vfs.FileKind)
	if err != nil {
		return err
	}
	return put(ctx, s.t.to, f, n)
}

// Link implements [Sink].
func (s spotSink) Link(ctx context.Context, _, target string) error {
	n, err := s.t.top.as(vfs.LinkKind)
	if err != nil {
		return err
	}
	return symlink(ctx, s.t.to.Dir, s.t.to.Name, target, n)
}

// End implements [Sink].
func (s spotSink) End(context.Context, bool) error { return nil }

func mkdir(ctx context.Context, d vfs.Dir, name string, n *node) (Sink, error) {
	made, err := d.Mkdir(ctx, name)
	if n.made(err) != nil {
		return nil, err
	}
	return &dirSink{made, n}, nil
}

func symlink(ctx context.Context, d vfs.Dir, name, target string, n *node) error {
	if n.differs(false, target) {
		return n.made(errAltered)
	}
	n.target = target
	return n.made(vfs.Symlink(ctx, d, name, target))
}

// put puts f at to.
func put(ctx context.Context, to Spot, f *File, n *node) error {
	if !n.version.IsZero() && n.version != f.Version || n.differs(f.Info.Exec, "") {
		return n.made(errAltered)
	}
	n.version = f.Version
	return n.made(install(ctx, to, f))
}

// install puts f at to, and answers errAltered unless its content has its version. A
// store without executable bits takes files that have none.
func install(ctx context.Context, to Spot, f *File) error {
	r, altered := f.verified()
	got, err := vfs.Install(ctx, to.Dir, to.Name, r, f.Info.Exec, to.If)
	if vfs.CodeOf(err) == vfs.Unsupported && !f.Info.Exec {
		r, altered = f.verified()
		got, err = to.Dir.Replace(ctx, to.Name, r, to.If)
	}
	switch code := vfs.CodeOf(err); {
	case altered() || err == nil && got != f.Version:
		return errAltered
	case to.If.Absent && (code == vfs.Conflict || code == vfs.IsDir || code == vfs.NotRegular):
		return vfs.Exists
	}
	return err
}

// verified returns a reader of f that ends in errAltered unless the content has f's version.
// altered reports whether it did.
func (f *File) verified() (r io.Reader, altered func() bool) {
	if f.small != nil {
		return bytes.NewReader(f.small), func() bool { return false }
	}
	v := &large{vfs.NewVerified(io.NewSectionReader(f, 0, f.Size()), f.Version, errAltered), f}
	return v, func() bool { return v.Differs }
}

// large is a file that is read, or cloned where the store can.
type large struct {
	*vfs.Verified
	f *File
}

var _ vfs.CloneReader = (*large)(nil)

// Size implements [vfs.CloneReader].
func (l *large) Size() int64 { return l.f.Size() }

// Clone implements [vfs.CloneReader].
func (l *large) Clone(fd uintptr) error { return vfs.Clone(l.f.Content, fd) }

// Cloned implements [vfs.CloneReader].
func (l *large) Cloned(v vfs.Version) error {
	if l.Differs = v != l.f.Version; l.Differs {
		return errAltered
	}
	return nil
}

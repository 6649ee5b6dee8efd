package vfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"sync"
)

// FromFS returns the tree of fsys, such as an embed.FS or a zip.Reader, as a [Dir] that
// is only read. fsys must not change while it is used. The links of an [fs.ReadLinkFS]
// are links; in any other file system they are notRegular.
//
// To serve a directory of the host, mount it by its URL: an os.DirFS follows links out of
// the directory.
func FromFS(fsys fs.FS) Dir { return NewImmutableDir(fsDir{fsys, "."}) }

// fsDir is a [Listing] of the directory at a path of a file system.
type fsDir struct {
	fsys fs.FS
	path string
}

func (d fsDir) Lookup(_ context.Context, name string) (Node, error) {
	at := path.Join(d.path, name)
	fi, err := fs.Lstat(d.fsys, at)
	if err != nil {
		return nil, ofFS(err)
	}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		return NewImmutableDir(fsDir{d.fsys, at}), nil
	case fs.ModeSymlink:
		if target, err := fs.ReadLink(d.fsys, at); err == nil {
			return &fsLink{target: target}, nil
		}
	case 0:
		info := Info{Size: fi.Size(), Exec: fi.Mode()&0o100 != 0, ModifiedMs: max(0, fi.ModTime().UnixMilli())}
		return NewImmutableFile(info, func(context.Context) (Content, error) { return openFS(d.fsys, at, info.Size) }), nil
	}
	return nil, NotRegular
}

func (d fsDir) List(context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		all, err := fs.ReadDir(d.fsys, d.path)
		for _, e := range all {
			if !yield(Entry{Name: e.Name(), Kind: d.kindOf(e)}, nil) {
				return
			}
		}
		if err != nil {
			yield(Entry{}, ofFS(err))
		}
	}
}

func (d fsDir) kindOf(e fs.DirEntry) Kind {
	switch e.Type() {
	case fs.ModeDir:
		return DirKind
	case fs.ModeSymlink:
		if _, ok := d.fsys.(fs.ReadLinkFS); ok {
			return LinkKind
		}
	case 0:
		return FileKind
	}
	return Other
}

// ofFS returns an error of a file system with its code. The names in it are for the
// host's log.
func ofFS(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return NotFound
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return err
}

type fsLink struct {
	ImmutableNode
	reference
	target string
}

func (l *fsLink) Stat(ctx context.Context) (Info, error) { return Info{Kind: LinkKind}, l.check(ctx) }

func (l *fsLink) Target(ctx context.Context) (string, error) { return l.target, l.check(ctx) }

// fsContent is the content of a file that was opened in a file system.
type fsContent struct {
	*io.SectionReader
	io.Closer
}

func openFS(fsys fs.FS, at string, size int64) (Content, error) {
	f, err := fsys.Open(at)
	if err != nil {
		return nil, ofFS(err)
	}
	if r, ok := f.(io.ReaderAt); ok {
		return fsContent{io.NewSectionReader(r, 0, size), f}, nil
	}
	s := &fsStream{fsys: fsys, path: at, file: f}
	return fsContent{io.NewSectionReader(s, 0, size), s}, nil
}

// fsStream reads a file at any offset that can only be read from its beginning on, such
// as a compressed one. To go back it opens the file again.
type fsStream struct {
	fsys fs.FS
	path string

	mu   sync.Mutex
	file fs.File
	at   int64 // the offset of file
}

func (s *fsStream) ReadAt(p []byte, off int64) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if off < s.at {
		if err := s.rewind(); err != nil {
			return 0, err
		}
	}
	skipped, err := io.CopyN(io.Discard, s.file, off-s.at)
	s.at += skipped
	if err == nil {
		n, err = io.ReadFull(s.file, p)
		s.at += int64(n)
	}
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

func (s *fsStream) rewind() error {
	f, err := s.fsys.Open(s.path)
	if err != nil {
		return err
	}
	err = s.file.Close()
	s.file, s.at = f, 0
	return err
}

func (s *fsStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

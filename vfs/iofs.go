package vfs

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"
)

// FS returns d as a read-only io/fs file system with ReadDir, ReadFile, Stat, Lstat and
// ReadLink. It follows links within d as [Walk] does. Every call on it uses ctx. The
// caller keeps d and closes it. Errors are *fs.PathError and match fs.ErrNotExist,
// fs.ErrPermission and so on.
//
// If d is a [ListWalker], ReadDir is one call of it for each directory. After the first few calls of
// Info such a listing looks at the entries as well, so that Info of each is no call of its own. It
// then says what was there at the time of the listing. If d is a [ReadWalker], ReadFile of a small
// file is one call of it.
func FS(ctx context.Context, d Dir) fs.FS { return fileSystem{ctx, d, new(atomic.Int64)} }

type fileSystem struct {
	ctx   context.Context
	dir   Dir
	infos *atomic.Int64 // calls of Info that no listing has answered
}

var (
	_ fs.ReadDirFS  = fileSystem{}
	_ fs.ReadFileFS = fileSystem{}
	_ fs.StatFS     = fileSystem{}
	_ fs.ReadLinkFS = fileSystem{}
)

// node opens name. close is nil when it is d itself, which the caller closes.
func (s fileSystem) node(op, name string, walk func(context.Context, Dir, string) (Node, error)) (Node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return kept{s.dir}, nil
	}
	n, err := walk(s.ctx, s.dir, name)
	return n, pathError(op, name, err)
}

// kept is a Dir that Close leaves open.
type kept struct{ Dir }

func (kept) Close() error { return nil }

func pathError(op, name string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (s fileSystem) Open(name string) (fs.File, error) {
	n, err := s.node("open", name, Walk)
	if err != nil {
		return nil, err
	}
	info, err := s.info("open", name, n)
	if err != nil {
		n.Close()
		return nil, err
	}
	switch n := n.(type) {
	case Dir:
		return &openDir{s: s, name: name, dir: n, info: info}, nil
	case File:
		c, err := Open(s.ctx, n)
		if err != nil {
			n.Close()
			return nil, pathError("open", name, err)
		}
		return &openFile{SectionReader: io.NewSectionReader(c, 0, c.Size()), name: name, file: n, content: c, info: info}, nil
	}
	n.Close()
	return nil, pathError("open", name, NotRegular)
}

// ReadWalker is a Dir that reads the file at a path in one call, such as a Dir of a remote host.
type ReadWalker interface {
	// WalkRead returns the whole content of the file to which path leads; it follows links as
	// [Walk] does. The caller may change what is returned. It answers tooLarge for a file that
	// does not fit into one call, which the caller opens and reads then.
	WalkRead(ctx context.Context, path string) ([]byte, error)
}

// ReadFile implements [fs.ReadFileFS].
func (s fileSystem) ReadFile(name string) ([]byte, error) {
	if w, ok := s.dir.(ReadWalker); ok && name != "." && fs.ValidPath(name) {
		if b, err := w.WalkRead(s.ctx, name); CodeOf(err) != TooLarge {
			return b, pathError("read", name, err)
		}
	}
	return fs.ReadFile(struct{ fs.FS }{s}, name)
}

func (s fileSystem) info(op, name string, n Node) (fs.FileInfo, error) {
	info, err := n.Stat(s.ctx)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return fileInfo{info, name[strings.LastIndexByte(name, '/')+1:]}, nil
}

func (s fileSystem) stat(op, name string, follow bool) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	var info Info
	var err error
	if name == "." {
		info, err = s.dir.Stat(s.ctx)
	} else {
		info, err = StatAt(s.ctx, s.dir, name, follow)
	}
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return fileInfo{info, name[strings.LastIndexByte(name, '/')+1:]}, nil
}

func (s fileSystem) Stat(name string) (fs.FileInfo, error)  { return s.stat("stat", name, true) }
func (s fileSystem) Lstat(name string) (fs.FileInfo, error) { return s.stat("lstat", name, false) }

func (s fileSystem) ReadLink(name string) (string, error) {
	n, err := s.node("readlink", name, WalkLink)
	if err != nil {
		return "", err
	}
	defer n.Close()
	l, ok := n.(Link)
	if !ok {
		return "", pathError("readlink", name, Invalid)
	}
	target, err := l.Target(s.ctx)
	return target, pathError("readlink", name, err)
}

func (s fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	if w, ok := s.dir.(ListWalker); ok {
		return s.walkList(w, name)
	}
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, pathError("readdir", name, NotDir)
	}
	return d.ReadDir(-1)
}

type openDir struct {
	s       fileSystem
	name    string
	dir     Dir
	info    fs.FileInfo
	entries []fs.DirEntry
	read    bool
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return d.dir.Close() }
func (d *openDir) Read([]byte) (int, error)   { return 0, pathError("read", d.name, IsDir) }

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		for e, err := range d.dir.List(d.s.ctx) {
			if err != nil {
				return nil, pathError("readdir", d.name, err)
			}
			d.entries = append(d.entries, dirEntry{d.s, d.name, e})
		}
		d.read = true
	}
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.entries) {
		n = len(d.entries)
	}
	out := d.entries[:n:n]
	d.entries = d.entries[n:]
	return out, nil
}

type openFile struct {
	*io.SectionReader
	name    string
	file    File
	content Content
	info    fs.FileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *openFile) Read(p []byte) (int, error) {
	n, err := f.SectionReader.Read(p)
	return n, pathError("read", f.name, err)
}

func (f *openFile) Close() error {
	err := f.content.Close()
	f.file.Close()
	return err
}

type dirEntry struct {
	s   fileSystem
	dir string
	e   Entry
}

func (e dirEntry) Name() string      { return e.e.Name }
func (e dirEntry) IsDir() bool       { return e.e.Kind == DirKind }
func (e dirEntry) Type() fs.FileMode { return modeOf(Info{Kind: e.e.Kind}).Type() }

func (e dirEntry) Info() (fs.FileInfo, error) {
	if e.dir == "." {
		return e.s.Lstat(e.e.Name)
	}
	return e.s.Lstat(Join(e.dir, e.e.Name))
}

type fileInfo struct {
	info Info
	name string
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.info.Size }
func (i fileInfo) Mode() fs.FileMode  { return modeOf(i.info) }
func (i fileInfo) ModTime() time.Time { return time.UnixMilli(i.info.ModifiedMs) }
func (i fileInfo) IsDir() bool        { return i.info.Kind == DirKind }
func (i fileInfo) Sys() any           { return nil }

func modeOf(i Info) fs.FileMode {
	switch {
	case i.Kind == DirKind:
		return fs.ModeDir | 0o555
	case i.Kind == LinkKind:
		return fs.ModeSymlink | 0o444
	case i.Kind == Other:
		return fs.ModeIrregular
	case i.Exec:
		return 0o555
	}
	return 0o444
}

package ignore

import (
	"context"
	"io"

	"capd/vfs"
)

// The files that count. In byte order of names they come before what most listings have.
const (
	gitDir    = ".git"
	gitIgnore = ".gitignore"
	ownIgnore = ".ignore"
)

// LastFile is the last name of an ignore file in byte order: when a listing has come to it,
// it is known whether there are any.
const LastFile = ownIgnore

// IsFile reports whether a directory with an entry called name may have ignore files of its
// own.
func IsFile(name string) bool { return name == gitIgnore || name == ownIgnore || name == gitDir }

// Load returns d with what the ignore files of its directory say. dir is that directory, and
// the files are read through it, so that what is withheld from it does not count. Nobody is
// asked for an approval. has reports whether the directory has an entry; nil: look. read is
// how many bytes the files have.
//
// failed is called for each file that should count and does not, because it could not be
// read or is too large. Its name is a path from dir, and err has no path. It is not called
// for a file that may not be read.
func (d *Dir) Load(ctx context.Context, dir vfs.Dir, has func(name string) bool, failed func(name string, err error)) (loaded *Dir, read int) {
	l := loader{ctx: vfs.Unasked(ctx), dir: dir, failed: failed, to: *d}
	if has == nil || has(gitDir) {
		l.repository()
	}
	if has == nil || has(gitIgnore) {
		l.add(&l.to.git, gitIgnore)
	}
	if has == nil || has(ownIgnore) {
		l.add(&l.to.own, ownIgnore)
	}
	if !l.changed {
		return d, l.read
	}
	return &l.to, l.read
}

type loader struct {
	ctx     context.Context
	dir     vfs.Dir
	failed  func(string, error)
	to      Dir
	read    int
	changed bool
}

// repository begins a repository, if there is one.
func (l *loader) repository() {
	n, err := l.dir.Lookup(l.ctx, gitDir)
	if err != nil {
		l.miss(gitDir, err)
		return
	}
	n.Close()
	l.changed = l.changed || l.to.git != nil || l.to.exclude != nil
	l.to.git, l.to.exclude = nil, nil
	l.to.count()
	if vfs.KindOf(n) == vfs.DirKind { // otherwise the repository is elsewhere
		l.add(&l.to.exclude, gitDir, "info", "exclude")
	}
}

// add adds the file at names to a list of levels.
func (l *loader) add(levels **level, names ...string) {
	path := vfs.JoinAll("", names)
	data, err := l.content(names)
	if err != nil {
		l.miss(path, err)
		return
	}
	l.read += len(data)
	r, err := Parse(data)
	if err == nil && (l.to.live+len(r.keeps) > maxLive || l.to.width+r.width > maxWidth) {
		err = vfs.Errorf(vfs.Limit, "the ignore files above have too many rules for this one to count")
	}
	if err != nil {
		l.failed(path, err)
		return
	}
	if len(r.keeps) == 0 {
		return
	}
	*levels, l.changed = with(r, *levels), true
	l.to.count()
}

// content reads the file at names.
func (l *loader) content(names []string) ([]byte, error) {
	at := l.dir
	last := len(names) - 1
	for _, name := range names[:last] {
		next, err := vfs.LookupAs[vfs.Dir](l.ctx, at, name, vfs.NotDir)
		if err != nil {
			return nil, err
		}
		defer next.Close()
		at = next
	}
	f, err := vfs.LookupAs[vfs.File](l.ctx, at, names[last], vfs.NotRegular)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, 0, 4<<10)
	for len(data) <= MaxFile {
		n, err := f.ReadAt(l.ctx, data[len(data):cap(data)], int64(len(data)))
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		} else if err != nil {
			return nil, err
		}
		data = append(make([]byte, 0, 8*cap(data)), data...)
	}
	return nil, errTooLarge
}

// miss tells of an error, unless it means that the file is not there for this caller.
func (l *loader) miss(path string, err error) {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.Denied, vfs.AskDenied, vfs.NotRegular, vfs.NotDir, vfs.IsDir, vfs.CrossDevice, vfs.Outside:
		return
	}
	l.failed(path, err)
}

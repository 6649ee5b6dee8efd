package vfs

import (
	"io/fs"
	"strings"
	"sync"
)

// manyInfos is after how many calls of Info listings look at the entries as well. To look at all is
// more work than to list them, which most programs only do.
const manyInfos = 2

// walkList is ReadDir of a file system whose calls each take a round trip.
func (s fileSystem) walkList(w ListWalker, name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	d := &walkedDir{s: s, walker: w}
	if name != "." {
		d.path = name
	}
	withInfo := s.infos.Load() >= manyInfos
	all, err := d.list(withInfo)
	if withInfo && CodeOf(err) == Denied { // to list may be allowed, and to look not
		all, err = d.list(false)
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, len(all))
	for i, e := range all {
		entries[i] = &walkedEntry{d, e}
	}
	return entries, nil
}

// walkedDir is a directory that was listed.
type walkedDir struct {
	s      fileSystem
	walker ListWalker
	path   string // "" for the file system's root

	once   sync.Once
	looked map[string]Info // from a second listing, if the first had no Info
}

func (d *walkedDir) list(withInfo bool) (all []InfoEntry, err error) {
	for e, err := range d.walker.WalkList(d.s.ctx, d.path, withInfo) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// look returns what a second listing says of name.
func (d *walkedDir) look(name string) (Info, bool) {
	d.once.Do(func() {
		all, err := d.list(true)
		if err != nil {
			return // Info of each says what is wrong
		}
		d.looked = make(map[string]Info, len(all))
		for _, e := range all {
			if e.Known {
				d.looked[e.Name] = e.Info
			}
		}
	})
	info, ok := d.looked[name]
	return info, ok
}

// walkedEntry is an entry of a walkedDir.
type walkedEntry struct {
	dir *walkedDir
	e   InfoEntry
}

func (e *walkedEntry) Name() string      { return e.e.Name }
func (e *walkedEntry) IsDir() bool       { return e.e.Kind == DirKind }
func (e *walkedEntry) Type() fs.FileMode { return modeOf(Info{Kind: e.e.Kind}).Type() }
func (e *walkedEntry) String() string    { return fs.FormatDirEntry(e) }

func (e *walkedEntry) Info() (fs.FileInfo, error) {
	if e.e.Known {
		return fileInfo{e.e.Info, e.e.Name}, nil
	}
	if e.dir.s.infos.Add(1) > manyInfos {
		if info, ok := e.dir.look(e.e.Name); ok {
			return fileInfo{info, e.e.Name}, nil
		}
	}
	return e.dir.s.Lstat(strings.TrimPrefix(e.dir.path+"/"+e.e.Name, "/"))
}

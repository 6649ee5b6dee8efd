package materialize

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"capd/vfs"
	"capd/vfs/batch"
)

// dir looks at what the directory open as root and f holds; its entries have depth
// names.
func (l *look) dir(root *os.Root, f *os.File, path string, depth int) error {
	for {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		names, err := f.Readdirnames(1024)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return vfs.At(path, explain(err))
		}
		if l.entries += len(names); l.entries > l.t.bounds.Entries {
			return errEntries(l.t.bounds)
		}
		for _, name := range names {
			if err := l.entry(root, name, vfs.Join(path, name), depth); err != nil {
				return err
			}
		}
	}
}

// entry looks at what is called name in root.
func (l *look) entry(root *os.Root, name, path string, depth int) error {
	leads := l.only.leads(path)
	if !l.concerns(path) && !leads || l.t.excludes(path) {
		return nil
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.At(path, explain(err))
	}
	if info, err = opened(root, name, info); err != nil {
		return l.unread(path, err)
	}
	a, r := attrOf(info), l.t.records[path]
	if r == nil && vfs.CheckNewName(name) != nil {
		l.left = append(l.left, Skipped{path, whyNewName})
	}
	if len(path) > vfs.MaxPath || depth > l.t.bounds.Depth {
		return vfs.At(path, errDeep(l.t.bounds))
	}
	switch {
	case a.dev != l.t.dev:
		l.shut(path, whyElsewhere)
	case a.mode.IsDir():
		return l.subdir(root, name, path, info, r, depth)
	case leads:
	case a.mode.IsRegular():
		return l.regular(root, name, path, a, r)
	case isLink(a.mode):
		return l.link(root, name, path, r, depth)
	default:
		l.left = append(l.left, Skipped{path, whySpecial})
	}
	return nil
}

// opened lets this process read the file or directory called name in root, which is
// what info says and its user's own, whatever mode a program gave it. What belongs to
// somebody else stays as it is.
func opened(root *os.Root, name string, info os.FileInfo) (os.FileInfo, error) {
	var need fs.FileMode
	switch {
	case info.IsDir():
		need = 0o700
	case info.Mode().IsRegular():
		need = 0o400
	}
	if info.Mode()&need == need {
		return info, nil
	}
	err := root.Chmod(name, info.Mode().Perm()|need)
	if errors.Is(err, fs.ErrPermission) {
		return info, nil
	}
	if err != nil {
		return nil, err
	}
	return root.Lstat(name)
}

// shut leaves what is at path, of which nobody knows what it holds.
func (l *look) shut(path, why string) {
	l.left = append(l.left, Skipped{path, why})
	l.closed = true
}

func (l *look) subdir(root *os.Root, name, path string, info os.FileInfo, r *record, depth int) error {
	sub, err := root.OpenRoot(name)
	if err != nil {
		return l.unread(path, err)
	}
	defer sub.Close()
	f, err := sub.Open(".")
	if err != nil {
		return l.unread(path, err)
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return vfs.At(path, explain(err))
	}
	if !os.SameFile(info, now) {
		return vfs.At(path, errBusy)
	}
	if other, err := l.t.elsewhere(f); err != nil || other {
		l.shut(path, whyElsewhere)
		return explain(err)
	}
	l.differs(path, r, &record{state: batch.State{Kind: vfs.DirKind}})
	return l.dir(sub, f, path, depth+1)
}

// unread leaves out what the host itself may not read, and answers busy for what
// is not what it was a moment ago, or any other err.
func (l *look) unread(path string, err error) error {
	err = explain(err)
	switch vfs.CodeOf(err) {
	case vfs.Denied:
		l.shut(path, whyUnreadable)
		return nil
	case vfs.NotFound, vfs.NotDir, vfs.NotRegular, vfs.Outside:
		err = errBusy
	}
	return vfs.At(path, err)
}

// elsewhere reports whether f is on another mount than the tree.
func (t *Tree) elsewhere(f *os.File) (bool, error) {
	mount, err := mountOf(f)
	return mount != t.mount, err
}

// differs writes down that path is as r has it, where its record is old.
func (l *look) differs(path string, old, r *record) {
	if old != nil {
		old.seen = l.id
		if old.state == r.state {
			old.attr, old.settled = r.attr, r.settled
			return
		}
	}
	l.found = append(l.found, finding{path, old, r})
}

// unchanged reports whether a file whose record is r, if any, is surely as it was.
func (r *record) unchanged(a attr) bool {
	return r != nil && r.state.Kind == vfs.FileKind && r.settled && r.attr == a
}

// several is a file with several names.
type several struct {
	attr  attr
	names uint64   // in the tree
	paths []string // those of them that are not surely as they were
}

// regular looks at a file. One with several names waits for the others.
func (l *look) regular(root *os.Root, name, path string, a attr, r *record) error {
	// A file may take up more of the disk than it has bytes.
	if l.bytes += a.size; l.bytes > l.t.bounds.Bytes || l.bytes < 0 {
		return vfs.At(path, errBytes(l.t.bounds))
	}
	if l.disk += max(a.allocated-a.size-slack, 0); l.disk > l.t.bounds.Bytes || l.disk < 0 {
		return vfs.At(path, errBytes(l.t.bounds))
	}
	same := r.unchanged(a)
	if same {
		r.seen = l.id
	}
	if a.nlink > 1 {
		l.count(path, a, same)
		return nil
	}
	if same {
		return nil
	}
	return l.file(root, name, a, path)
}

// count counts path, which is as it was or perhaps not, as a name of a file with several.
func (l *look) count(path string, a attr, same bool) {
	s := l.several[a.inode()]
	if s == nil {
		s = &several{attr: a}
		l.several[a.inode()] = s
	}
	s.names++
	if !same {
		s.paths = append(s.paths, path)
	}
}

// file reads the file called name in root, which has paths in the tree.
func (l *look) file(root *os.Root, name string, a attr, paths ...string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|openNeverWaits, 0)
	if err != nil {
		for _, path := range paths {
			if err := l.unread(path, err); err != nil {
				return err
			}
		}
		return nil
	}
	defer f.Close()
	if other, err := l.t.elsewhere(f); err != nil || other {
		for _, path := range paths {
			l.shut(path, whyElsewhere)
		}
		return explain(err)
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, &unchanging{ctx: l.ctx, f: f, a: a}, l.buf[:]); err != nil {
		return vfs.At(paths[0], err)
	}
	settled := a.settled(time.Now())
	for _, path := range paths {
		l.differs(path, l.t.records[path], &record{
			attr: a, settled: settled,
			state: batch.State{Kind: vfs.FileKind, Exec: a.mode&0o100 != 0, Version: vfs.Version(sum.Sum(nil))},
		})
	}
	return nil
}

// linked looks at the files with several names, now that it is known which. A file
// all of whose names are here becomes several files. One that has others is not
// read: whoever has the other name says what it holds.
func (l *look) linked() error {
	for _, s := range l.several {
		if len(s.paths) == 0 {
			continue
		}
		if s.names == s.attr.nlink {
			if err := l.file(l.t.root, s.paths[0], s.attr, s.paths...); err != nil {
				return err
			}
			continue
		}
		for _, path := range s.paths {
			l.differs(path, l.t.records[path], &record{attr: s.attr, state: batch.State{Kind: vfs.FileKind}})
			l.left = append(l.left, Skipped{path, whyNames})
		}
	}
	return nil
}

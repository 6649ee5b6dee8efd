package materialize

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"capd/hostfile"
	"capd/vfs"
	"capd/vfs/diff"
)

// dir compares the entries of the directory open as root and f. Their paths have depth
// names.
func (l *comparison) dir(root *os.Root, f *os.File, path string, depth int) error {
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
			return l.t.bounds.TooMany()
		}
		for _, name := range names {
			if err := l.entry(root, name, vfs.Join(path, name), depth); err != nil {
				return err
			}
		}
	}
}

// entry compares the entry called name in root.
func (l *comparison) entry(root *os.Root, name, path string, depth int) error {
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
		l.left = append(l.left, diff.Skipped{Path: path, Why: whyNewName})
	}
	if len(path) > vfs.MaxPath || depth > l.t.bounds.Depth {
		return vfs.At(path, l.t.bounds.TooDeep())
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
		l.left = append(l.left, diff.Skipped{Path: path, Why: whySpecial})
	}
	return nil
}

// opened sets the mode of the file or directory called name in root so that this
// process can read it. info is its FileInfo. It changes only what belongs to its own
// user.
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

// shut leaves out path, whose content is unknown.
func (l *comparison) shut(path, why string) {
	l.left = append(l.left, diff.Skipped{Path: path, Why: why})
	l.closed = true
}

func (l *comparison) subdir(root *os.Root, name, path string, info os.FileInfo, r *record, depth int) error {
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
	l.differs(path, r, &record{state: diff.State{Kind: vfs.DirKind}})
	return l.dir(sub, f, path, depth+1)
}

// unread leaves out what the host may not read. It answers busy for an entry that
// changed a moment ago, and returns any other err.
func (l *comparison) unread(path string, err error) error {
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

// differs notes that path is as r says, while its record is old.
func (l *comparison) differs(path string, old, r *record) {
	if old != nil {
		old.seen = l.id
		if old.state == r.state {
			old.attr, old.settled = r.attr, r.settled
			return
		}
	}
	l.found = append(l.found, finding{path, old, r})
}

// unchanged reports whether a file with the attributes a is surely as in its record r,
// which may be nil.
func (r *record) unchanged(a attr) bool {
	return r != nil && r.state.Kind == vfs.FileKind && r.settled && r.attr == a
}

// several is a file with several names.
type several struct {
	attr  attr
	names uint64   // in the tree
	paths []string // those that may have changed
}

// regular compares a file. A file with several names is left for linked.
func (l *comparison) regular(root *os.Root, name, path string, a attr, r *record) error {
	// A file may use more disk than it has bytes.
	if l.bytes += a.size; l.bytes > l.t.bounds.Bytes || l.bytes < 0 {
		return vfs.At(path, l.t.bounds.TooLarge())
	}
	if l.disk += max(a.allocated-a.size-slack, 0); l.disk > l.t.bounds.Bytes || l.disk < 0 {
		return vfs.At(path, l.t.bounds.TooLarge())
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

// count notes path as a name of a file with several names. same says that it is surely
// unchanged.
func (l *comparison) count(path string, a attr, same bool) {
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

// file reads the file called name in root. paths are its names in the tree.
func (l *comparison) file(root *os.Root, name string, a attr, paths ...string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|hostfile.NeverWait, 0)
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
	settled := a.settled(time.Now()) // before the read: a change during it must show
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, &unchanging{ctx: l.ctx, f: f, a: a}, l.buf[:]); err != nil {
		return vfs.At(paths[0], err)
	}
	for _, path := range paths {
		l.differs(path, l.t.records[path], &record{
			attr: a, settled: settled,
			state: diff.State{Kind: vfs.FileKind, Exec: a.mode&0o100 != 0, Version: vfs.Version(sum.Sum(nil))},
		})
	}
	return nil
}

// linked compares the files with several names, once all names are known. A file with
// all its names in the tree becomes several files. A file with names elsewhere is not
// read: whoever has the other name decides what is in it.
func (l *comparison) linked() error {
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
			l.differs(path, l.t.records[path], &record{attr: s.attr, state: diff.State{Kind: vfs.FileKind}})
			l.left = append(l.left, diff.Skipped{Path: path, Why: whyNames})
		}
	}
	return nil
}

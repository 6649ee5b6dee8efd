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
	if !l.concerns(path) && !leads {
		return nil
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.At(path, explain(err))
	}
	a, r := attrOf(info), l.t.records[path]
	if r == nil {
		if err := vfs.CheckNewName(name); err != nil {
			l.skipped[path] = "its name is not one that may be made"
			return nil
		}
	}
	if len(path) > vfs.MaxPath || depth > l.t.bounds.Depth {
		return vfs.At(path, errDeep(l.t.bounds))
	}
	switch {
	case a.dev != l.t.dev:
		l.skipped[path] = whyElsewhere
	case a.mode.IsDir():
		return l.subdir(root, name, path, info, r, depth)
	case leads:
	case a.mode.IsRegular():
		return l.file(root, name, path, a, r)
	case a.mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err == nil && r != nil && r.state == (batch.State{Kind: vfs.LinkKind, Target: target}) {
			r.seen = l.id
			return nil
		}
		l.skipped[path] = "a link that was made or changed here"
	default:
		l.skipped[path] = whySpecial
	}
	return nil
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
		l.skipped[path] = whyElsewhere
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
		l.skipped[path] = whyUnreadable
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
	switch {
	case old == nil:
		l.found = append(l.found, finding{path, batch.State{}, r})
	case old.state == r.state:
		old.seen, old.attr, old.settled = l.id, r.attr, r.settled
	default:
		old.seen = l.id
		l.found = append(l.found, finding{path, old.state, r})
	}
}

func (l *look) file(root *os.Root, name, path string, a attr, r *record) error {
	// A file may take up more of the disk than it has bytes.
	if l.bytes += a.size; l.bytes > l.t.bounds.Bytes || l.bytes < 0 {
		return vfs.At(path, errBytes(l.t.bounds))
	}
	if l.disk += max(a.allocated-a.size-slack, 0); l.disk > l.t.bounds.Bytes || l.disk < 0 {
		return vfs.At(path, errBytes(l.t.bounds))
	}
	switch {
	case a.nlink != 1:
		l.skipped[path] = "a file with several names"
		return nil
	case r != nil && r.state.Kind == vfs.FileKind && r.settled && r.attr == a:
		r.seen = l.id
		return nil
	}
	fresh := &record{attr: a, settled: a.settled(time.Now()), state: batch.State{Kind: vfs.FileKind, Exec: a.mode&0o100 != 0}}
	f, err := root.OpenFile(name, os.O_RDONLY|openNeverWaits, 0)
	if err != nil {
		return l.unread(path, err)
	}
	defer f.Close()
	if other, err := l.t.elsewhere(f); err != nil || other {
		l.skipped[path] = whyElsewhere
		return explain(err)
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, &unchanging{ctx: l.ctx, f: f, a: a}, l.buf[:]); err != nil {
		return vfs.At(path, err)
	}
	fresh.state.Version = vfs.Version(sum.Sum(nil))
	l.differs(path, r, fresh)
	return nil
}

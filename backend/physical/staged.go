package physical

import (
	"cmp"
	"context"
	"io"
	"os"

	"capd/meter"
	"capd/vfs"
)

// staged is a file in a staging directory.
type staged struct {
	st      *stage
	name    string
	file    *os.File
	attr    attr        // the identity
	fresh   os.FileMode // of a new file, by the umask
	size    int64
	sum     summer
	perm    os.FileMode // taken over from the old file
	exec    *bool       // executable or not; nil keeps what the mode says
	dressed bool        // it has everything else that dress copies
	synced  bool        // all of that is on disk
	placed  bool        // it was moved to its place, and nothing came back
	later   bool        // it goes to a staged directory, which is synced as a whole
}

var _ vfs.StagedContent = (*staged)(nil)

func (st *stage) newFile() (*staged, error) {
	d, err := st.s.enter(st.at)
	if err != nil {
		return nil, err
	}
	defer st.s.leave(d)
	t := &staged{st: st, name: st.temporary()}
	if t.file, err = d.create(t.name, 0o666); err != nil { // nobody else can enter the directory
		return nil, gone(err)
	}
	if t.attr, err = attrOfFile(t.file); err == nil {
		t.fresh, t.perm = t.attr.perm, 0o600
		err = t.file.Chmod(t.perm)
	}
	if err != nil {
		t.discard()
		return nil, explain(err)
	}
	return t, nil
}

// discard removes the node that has the name now, if it is the staged file or the file
// that it displaced. It leaves any other.
func (t *staged) discard() {
	t.sum.version()
	t.file.Close()
	if t.placed {
		return
	}
	if d, err := t.st.s.enter(t.st.at); err == nil {
		if a, err := d.lstat(t.name); err == nil && a.kind == vfs.FileKind {
			d.unlink(t.name)
		}
		t.st.s.leave(d)
	}
}

// clone has t share the content of r where the file system can; see ioctl_ficlone(2). It
// reports false if r has to be read.
func (t *staged) clone(ctx context.Context, r io.Reader) (done bool, err error) {
	c, ok := r.(vfs.CloneReader)
	if !ok || c.Size() == 0 {
		return false, nil
	}
	late := meter.Rest(ctx, func() { err = c.Clone(t.file.Fd()) })
	unable := vfs.CodeOf(err) == vfs.Unsupported
	if !unable && (err != nil || late != nil) {
		return true, cmp.Or(err, late)
	}
	a, err := attrOfFile(t.file)
	switch {
	case err != nil:
		return true, explain(err)
	case unable && a.size > 0: // ext4 writes a file that was truncated to nothing when it is closed
		return false, explain(t.file.Truncate(0))
	case unable:
		return false, nil
	}
	t.size = c.Size()
	if a.size != t.size {
		return true, errKeepsChanging
	}
	if t.sum.known, err = digest(ctx, t.file, t.size); err != nil {
		return true, err
	}
	return true, c.Cloned(t.sum.known)
}

// fill copies all of r, with constant memory. It returns an error of r unchanged.
func (t *staged) fill(ctx context.Context, r io.Reader) error {
	if done, err := t.clone(ctx, r); done || err != nil {
		return err
	}
	for {
		if err := meter.Yield(ctx); err != nil {
			return err
		}
		p := newPiece()
		n, err := r.Read(p.b[:])
		p.n = n
		_, werr := t.file.Write(p.b[:n])
		t.size += int64(n)
		t.sum.add(p)
		switch {
		case werr != nil:
			return explain(werr)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// dress gives t the attributes that it takes over from the file at name, or those of a
// new file. Then t has to be synced.
func (t *staged) dress(d *Dir, name string, was seen) error {
	if t.dressed && (!was.exists || was.attr.perm == t.perm) {
		return nil
	}
	dir, err := d.s.enter(d.at)
	if err != nil {
		return err
	}
	defer d.s.leave(dir)
	perm := t.fresh
	var old *os.File
	if was.exists {
		perm = was.attr.perm
		keepOwner(t.file, was.attr)
		if old, _, err = dir.open(name, os.O_RDONLY); err == nil {
			defer old.Close()
		}
	} else if a, err := dir.attr(); err == nil && a.setgid {
		keepGroup(t.file, a)
	}
	if err := t.file.Chmod(perm); err != nil {
		return explain(err)
	}
	if old != nil {
		keepAttributes(t.file, old)
	}
	if t.exec != nil { // whatever the attributes did to the mode
		if err := t.file.Chmod(executable(perm, *t.exec)); err != nil {
			return explain(err)
		}
	}
	t.perm, t.dressed, t.synced = perm, true, false
	return nil
}

// Size implements vfs.StagedContent.
func (t *staged) Size() int64 { return t.size }

// Version implements vfs.StagedContent.
func (t *staged) Version() vfs.Version { return t.sum.version() }

// Open implements vfs.StagedContent.
func (t *staged) Open(ctx context.Context) (vfs.Content, error) {
	d, err := t.st.s.enter(t.st.at)
	if err != nil {
		return nil, t.st.lost(err)
	}
	defer t.st.s.leave(d)
	f, _, err := d.open(t.name, os.O_RDONLY)
	if err != nil {
		return nil, explain(err)
	}
	return vfs.NewContent(ctx, f, t.size), nil
}

// Sync implements vfs.StagedContent.
func (t *staged) Sync(ctx context.Context) (err error) {
	if t.synced || t.later || t.st.s.noSync {
		return nil
	}
	if late := meter.Rest(ctx, func() { err = t.file.Sync() }); err == nil && late != nil {
		return late
	}
	t.synced = err == nil
	return explain(err)
}

// executable returns perm for a file that can, or cannot, be executed.
func executable(perm os.FileMode, exec bool) os.FileMode {
	if exec {
		return perm | 0o100 | perm&0o444>>2
	}
	return perm &^ 0o111
}

// exchange puts t in place of the version that was seen, or returns again.
func (t *staged) exchange(from, dir directory, name string, was seen) (again bool, err error) {
	err = from.move(t.name, dir, name, exchange)
	switch {
	case err == errNoExchange: // look before replacing
		if _, ok := displaced(dir, name, was); !ok {
			return true, nil
		}
		return false, from.move(t.name, dir, name, replace)
	case err != nil:
		return isNotExist(err), err
	}
	if _, ok := displaced(from, t.name, was); ok {
		return false, nil
	}
	err = t.undo(from, dir, name)
	return err == nil, err
}

// displaced returns the attributes of name, usually in the staging directory, and
// reports whether it is the version that was seen.
func displaced(from directory, name string, was seen) (attr, bool) {
	a, err := from.lstat(name)
	if err != nil || a.kind != vfs.FileKind {
		return a, false
	}
	if was.settled {
		return a, was.attr.unmoved(a)
	}
	f, a, err := from.open(name, os.O_RDONLY)
	if err != nil {
		return a, false
	}
	defer f.Close()
	return a, was.still(f, a)
}

// undo puts back what an exchange displaced. If other programs put something at name
// meanwhile, the newest of that stays. If t itself was lost to another program, undo
// answers busy. A directory that is left over, because another program moved t away,
// gets a new name beside the old one.
func (t *staged) undo(from, dir directory, name string) error {
	put := t.attr // what the last exchange put at name
	for range attempts {
		held, err := from.lstat(t.name)
		if err != nil {
			return explain(err)
		}
		err = from.move(t.name, dir, name, exchange)
		if isNotExist(err) { // removed meanwhile
			if err = from.move(t.name, dir, name, noReplace); err == nil {
				return errKeepsChanging
			}
			if isExist(err) {
				continue
			}
		}
		if err != nil {
			return explain(err)
		}
		got, err := from.lstat(t.name)
		if err != nil {
			return explain(err)
		}
		if got.same(t.attr) && got.same(put) {
			return nil
		}
		if got.same(put) {
			break
		}
		put = held // got is newer than what went there: put that back
	}
	if a, err := from.lstat(t.name); err == nil && a.kind != vfs.FileKind {
		from.move(t.name, dir, "displaced-"+randomDigits(), noReplace)
	}
	return errKeepsChanging
}

package physical

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"

	"capd/vfs"
)

// host is one way to reach a served tree: with the kernel's confinement, or with
// os.Root. It makes no decisions; the nodes of this package do.
type host interface {
	confinement() string
	// enter opens the directory at p. It answers stale unless that is the directory p
	// was made for, and crossDevice when another filesystem is mounted on the way.
	// With try it does not wait: where it might, it answers vfs.ErrWouldBlock. lstat,
	// look, sub and below of its result do not wait either.
	enter(p place, try bool) (directory, error)
	// near reports whether a file of the tree can have another name where k keeps things.
	near(k vfs.Keep) bool
	// tries reports whether enter and kept can succeed with try at all.
	tries() bool
	// kept returns the file that an earlier read left open for path, in in, or nil. It
	// first makes sure that this file is still at path, unchanged. The caller closes
	// it. With try kept does not wait: where it might, it returns nil.
	kept(in place, path string, try bool) reader
	// keep leaves r open for later reads. r was opened at path after mark was taken.
	// keep does so only if the file system shows whether a file is still at its path.
	keep(path string, r reader, a attr, mark uint64)
	mark() uint64
	// forget closes the file kept for path, and forgetBelow the files below it, once
	// their readers are done.
	forget(path string)
	forgetBelow(path string)
	// changed notes the attributes that a file from a directory's openSole has after a
	// change.
	changed(a attr)
	close()
}

// place is where a directory was found, and its identity.
type place struct {
	path string // relative to the served root, which is ""
	id   ident
}

// directory is one verified directory of the tree, used for one operation. Names are
// single, checked segments. If another program moves the directory after it was
// verified, the operation counts as made just before the move. Errors are those of the
// system, or a *vfs.Error.
type directory interface {
	attr() (attr, error)
	ident() (ident, error)
	// lstat returns the attributes of name. It never follows a link.
	lstat(name string) (attr, error)
	// look is lstat, and identifies a directory.
	look(name string) (attr, ident, error)
	// sub opens the directory called name. The caller releases it.
	sub(name string) (directory, ident, error)
	// below opens the directory at path, which is from the root and one or more names
	// below this directory. It follows no link.
	// It fails with ENOENT when one of the names does not exist, and answers
	// vfs.ErrStepwise when something else is in the way.
	below(path string) (directory, ident, error)
	// open opens the regular file called name and never waits. For anything else it
	// answers notRegular or isDir, without opening it.
	open(name string, flag int) (*os.File, attr, error)
	// openSole opens a file that is to be changed in place. It guarantees that at one
	// moment during the call the file had this name and no other; see
	// docs/decisions/0016. It answers denied when the file has another name, busy when
	// names keep moving, and errUnsettled when it will be able to tell a moment later.
	openSole(name string, flag int) (*os.File, attr, error)
	// read is open for reading alone.
	read(name string) (reader, attr, error)
	readlink(name string) (string, error)
	// entries calls each with some entries at a time, until it has passed all of them,
	// in the order of the file system. It stops at the first error of each and returns
	// it.
	entries(each func(some []vfs.Entry) error) error
	// pin keeps the node called name from being freed until unpin is called, where the
	// system can. Freeing a large file takes time, and its last name may be removed at
	// a moment when nothing should wait.
	pin(name string) (unpin func())
	// create makes a new file. perm is subject to the umask.
	create(name string, perm os.FileMode) (*os.File, error)
	mkdir(name string, perm os.FileMode) error
	// symlink makes a link with any text.
	symlink(target, name string) error
	// link gives the file called name the name as in the directory that fd is open on, too.
	link(name string, fd int, as string) error
	unlink(name string) error // not for directories
	rmdir(name string) error
	// move renames within the store. If how is exchange and the file system cannot
	// exchange, it answers errNoExchange.
	move(name string, dst directory, newName string, how how) error
	// self opens the directory to sync it.
	self() (*os.File, error)
	release()
}

// reader is a file open for reading.
type reader interface {
	io.ReaderAt
	io.Closer
	// tryReadAt answers vfs.ErrWouldBlock where ReadAt would wait for the disk.
	tryReadAt(p []byte, off int64) (int, error)
	// closeSoon is Close for a caller that must not wait.
	closeSoon()
}

// again bounds how often something is tried again because names were moving.
const again = 16

// sole answers denied for a file with several names.
func sole(a attr) error {
	if a.nlink > 1 {
		return vfs.Errorf(vfs.Denied, "this file has another name, a hard link, which may lie outside; replace the whole file instead of writing in place")
	}
	return nil
}

// soleBetween reports whether a file had one name all the time between two looks, found
// and opened.
func soleBetween(found, opened attr) bool {
	return found.same(opened) && found.nlink == 1 && opened.nlink == 1 && found.ctime == opened.ctime
}

// errUnsettled answers that a file was changed too recently to tell whether it is being
// changed now.
var errUnsettled = vfs.Errorf(vfs.Busy, "another program has just changed it; try again")

// how says what move does if the target exists.
type how int

const (
	noReplace how = iota // fails with EEXIST
	exchange             // swaps the two; fails with ENOENT when there is no target
	replace              // replaces the target
)

var errNoExchange = vfs.Errorf(vfs.Unsupported, "this file system cannot exchange two names")

// attr is what is known of a node without opening it.
type attr struct {
	kind     vfs.Kind
	size     int64       // bytes
	perm     os.FileMode // 0777
	setgid   bool
	mtime    int64 // nanoseconds since the Unix epoch
	ctime    int64 // the same; 0 where the platform has none
	dev, ino uint64
	nlink    uint64
	uid, gid uint32
	fi       os.FileInfo // the identity if ino is unknown
}

// same reports whether a and b are the same file. It is certain while one of them is
// open. Otherwise another file may have got the same number since.
func (a attr) same(b attr) bool {
	if a.ino == 0 || b.ino == 0 {
		return a.fi != nil && b.fi != nil && os.SameFile(a.fi, b.fi)
	}
	return a.dev == b.dev && a.ino == b.ino
}

// unmoved reports whether b is the file a, not written since. It ignores the time of
// change, which a rename sets.
func (a attr) unmoved(b attr) bool {
	return a.same(b) && a.kind == b.kind && a.size == b.size && a.mtime == b.mtime
}

// unchanged reports whether b is the file a with no change since.
func (a attr) unchanged(b attr) bool { return a.unmoved(b) && a.ctime == b.ctime }

func (a attr) info() vfs.Info {
	i := vfs.Info{Kind: a.kind, ModifiedMs: floorMs(a.mtime)}
	if a.kind == vfs.FileKind {
		i.Size, i.Exec, i.Links = a.size, a.perm&0o100 != 0, a.nlink
	}
	return i
}

func floorMs(ns int64) int64 {
	ms := ns / 1e6
	if ns%1e6 < 0 {
		ms--
	}
	return ms
}

// regular answers isDir or notRegular unless a is a regular file.
func (a attr) regular() error {
	switch a.kind {
	case vfs.FileKind:
		return nil
	case vfs.DirKind:
		return vfs.IsDir
	case vfs.LinkKind:
		return vfs.NotRegular
	}
	return vfs.Errorf(vfs.NotRegular, "a FIFO, socket or device has this name; only regular files are served")
}

// directory answers notDir unless a is a directory.
func (a attr) directory() error {
	if a.kind != vfs.DirKind {
		return vfs.NotDir
	}
	return nil
}

// ident identifies a directory: no other has the same ident, not even a later one at
// the same place. It is the file system's handle where there is one, since handles are
// not reused. Elsewhere it is the inode number and the time of birth.
type ident struct {
	handle string
	dev    uint64
	ino    uint64
	btime  int64
}

func (a ident) same(b ident) bool {
	switch {
	case a.handle != "" || b.handle != "":
		return a.handle == b.handle
	}
	return a.dev == b.dev && a.ino == b.ino && a.btime == b.btime // all 0 for the root, which is kept open and needs none
}

// lasting returns what identifies the directory after a restart too, or "". The number of
// the device is not part of it, since it may be another after the machine has started
// again.
func (a ident) lasting() string {
	switch {
	case a.ino != 0 && a.btime != 0:
		return fmt.Sprintf("%d:%d", a.ino, a.btime)
	case a.handle != "":
		return "handle:" + base64.RawStdEncoding.EncodeToString([]byte(a.handle))
	}
	return ""
}

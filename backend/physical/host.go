package physical

import (
	"io"
	"os"

	"capd/vfs"
)

// host is one way to reach a served tree: the kernel's own confinement, or
// os.Root. It decides nothing; the nodes of this package do.
type host interface {
	confinement() string
	// enter reaches the directory at p and answers stale unless it is the one
	// that p was made for, and crossDevice when a mount lies over the way.
	enter(p place) (directory, error)
	// tryEnter is enter for one who must not wait, and answers vfs.ErrWouldBlock.
	// Nor does the directory's lstat or sub wait.
	tryEnter(p place) (directory, error)
	// tries reports that it may be tried at all.
	tries() bool
	// kept returns the file at path, in in, as an earlier read left it open, once it
	// is certain that it is what is at path now, unchanged; nil when there is none.
	// The caller closes it. tryKept waits for nothing: it returns a file or answers
	// vfs.ErrWouldBlock.
	kept(in place, path string) reader
	tryKept(in place, path string) (reader, error)
	// keep leaves r, which was opened at path after mark was asked for, open for
	// later reads, if the file system allows to tell when it is that file no more.
	keep(path string, r reader, a attr, mark uint64)
	mark() uint64
	// forget closes the file that is kept of path, and forgetBelow the files below
	// it, once those who read them are done.
	forget(path string)
	forgetBelow(path string)
	// changed is told what a file that a directory's openSole opened is like after
	// it was changed.
	changed(a attr)
	cached() int
	close()
}

// place is where a directory was found and what was found there.
type place struct {
	path string // relative to the served root, which is ""
	id   ident
}

// directory is one directory of the tree, verified, for the time of one
// operation. Names are single segments that were checked before. A directory
// that is moved by somebody else after it was verified makes the operation one
// that came just before the move. Errors are as the system gave them, or a
// *vfs.Error.
type directory interface {
	attr() (attr, error)
	// lstat describes what is called name and never follows a link.
	lstat(name string) (attr, error)
	// sub reaches the directory called name. The caller releases it.
	sub(name string) (directory, ident, error)
	// open opens the regular file called name and never waits: notRegular or
	// isDir for anything else, which is found out without opening it.
	open(name string, flag int) (*os.File, attr, error)
	// openSole is open for a file that is to be changed in place. At one moment
	// between call and answer the file had this name and no other: docs/decisions/0016.
	// denied when it has another, busy when that cannot be told since names keep moving, and
	// errUnsettled when it can be told a moment later.
	openSole(name string, flag int) (*os.File, attr, error)
	// read is open for reading alone.
	read(name string) (reader, attr, error)
	readlink(name string) (string, error)
	// entries calls each for all of them, some at a time, in the order of the file
	// system, and ends with each's error.
	entries(each func(some []vfs.Entry) error) error
	// pin keeps what is called name from being freed until unpin is called, where the
	// system can: to free a large file takes time, wherever its last name goes.
	pin(name string) (unpin func())
	// create makes a file that is not there; perm passes the umask.
	create(name string, perm os.FileMode) (*os.File, error)
	mkdir(name string, perm os.FileMode) error
	// symlink makes a link that says target, whatever that is.
	symlink(target, name string) error
	unlink(name string) error // anything but a directory
	rmdir(name string) error
	// move renames within the store. It answers errNoExchange when how is
	// exchange and the file system cannot.
	move(name string, dst directory, newName string, how how) error
	// self opens the directory for it to be written to disk.
	self() (*os.File, error)
	release()
}

// reader is a file that is open for reading.
type reader interface {
	io.ReaderAt
	io.Closer
	// tryReadAt answers vfs.ErrWouldBlock where reading would wait for the disk.
	tryReadAt(p []byte, off int64) (int, error)
	// closeSoon is Close for a caller that must not wait.
	closeSoon()
}

// again bounds how often something is tried anew because names were moving.
const again = 16

// sole answers denied for a file that has other names.
func sole(a attr) error {
	if a.nlink > 1 {
		return vfs.Errorf(vfs.Denied, "this file has another name, a hard link, which may lie outside; replace the whole file instead of writing in place")
	}
	return nil
}

// soleBetween reports that a file which was looked up and then opened, with these
// attributes, had one name all the while.
func soleBetween(found, opened attr) bool {
	return found.same(opened) && found.nlink == 1 && opened.nlink == 1 && found.ctime == opened.ctime
}

// errUnsettled says that a file was changed too short a time ago to tell whether it
// is being changed now.
var errUnsettled = vfs.Errorf(vfs.Busy, "another program has just changed it; try again")

// how says what move does about a target that exists.
type how int

const (
	noReplace how = iota // fails with EEXIST
	exchange             // swaps the two; fails with ENOENT when there is no target
	replace              // puts the source in its place
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
	fi       os.FileInfo // the identity where ino is unknown
}

// same reports whether a and b are one file. It is certain while one of them is
// held open; otherwise the number may have been given to another file since.
func (a attr) same(b attr) bool {
	if a.ino == 0 || b.ino == 0 {
		return a.fi != nil && b.fi != nil && os.SameFile(a.fi, b.fi)
	}
	return a.dev == b.dev && a.ino == b.ino
}

// unmoved reports whether b is a, not written since. It leaves out the time of
// change, which a rename sets.
func (a attr) unmoved(b attr) bool {
	return a.same(b) && a.kind == b.kind && a.size == b.size && a.mtime == b.mtime
}

// unchanged reports whether b is a, untouched since.
func (a attr) unchanged(b attr) bool { return a.unmoved(b) && a.ctime == b.ctime }

func (a attr) info() vfs.Info {
	i := vfs.Info{Kind: a.kind, ModifiedMs: floorMs(a.mtime)}
	if a.kind == vfs.FileKind {
		i.Size, i.Exec = a.size, a.perm&0o100 != 0
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

// ident tells a directory from every other, also from a later one at the same
// place. Where the file system gives handles it is the handle, which is never
// given twice; elsewhere the inode's number and its time of birth.
type ident struct {
	handle string
	dev    uint64
	ino    uint64
	btime  int64
	fi     os.FileInfo // where ino is unknown
}

func (a ident) same(b ident) bool {
	switch {
	case a.handle != "" || b.handle != "":
		return a.handle == b.handle
	case a.ino != 0 || b.ino != 0:
		return a.dev == b.dev && a.ino == b.ino && a.btime == b.btime
	}
	if a.fi == nil || b.fi == nil {
		return a.fi == nil && b.fi == nil // both the root's, which is held and needs none
	}
	return os.SameFile(a.fi, b.fi)
}

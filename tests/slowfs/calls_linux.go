package slowfs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// slow is a file system whose calls first wait. Calls for which the kernel does
// not wait (forget, release) are answered at once.
type slow struct {
	fuse.RawFileSystem
	disk  *disk
	flags uint32   // of every file that is opened
	names sync.Map // from a node's number to its last name
}

// named notes what out is called.
func (s *slow) named(name string, out *fuse.EntryOut) {
	if out.NodeId != 0 {
		s.names.Store(out.NodeId, name)
	}
}

func (s *slow) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s.disk.wait(false)
	st := s.RawFileSystem.Lookup(cancel, header, name, out)
	s.named(name, out)
	return st
}

func (s *slow) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.GetAttr(cancel, in, out)
}

func (s *slow) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.SetAttr(cancel, in, out)
}

// Statx asks as GetAttr does.
func (s *slow) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Statx(cancel, in, out)
}

func (s *slow) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Mkdir(cancel, in, name, out)
}

func (s *slow) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Unlink(cancel, header, name)
}

func (s *slow) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Rmdir(cancel, header, name)
}

func (s *slow) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Rename(cancel, in, from, to)
}

func (s *slow) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Link(cancel, in, name, out)
}

func (s *slow) Symlink(cancel <-chan struct{}, header *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Symlink(cancel, header, to, name, out)
}

func (s *slow) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	s.disk.wait(false)
	return s.RawFileSystem.Readlink(cancel, header)
}

func (s *slow) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	s.disk.wait(false)
	st := s.RawFileSystem.Create(cancel, in, name, out)
	s.named(name, &out.EntryOut)
	out.OpenFlags |= s.flags
	return st
}

// Open makes reads and writes bypass the kernel's cache, unless it is to keep contents.
func (s *slow) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.disk.wait(false)
	st := s.RawFileSystem.Open(cancel, in, out)
	out.OpenFlags |= s.flags
	return st
}

func (s *slow) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	s.disk.wait(true)
	return s.RawFileSystem.Read(cancel, in, buf)
}

func (s *slow) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	s.disk.wait(true)
	return s.RawFileSystem.Write(cancel, in, data)
}

func (s *slow) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.Flush(cancel, in)
}

func (s *slow) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	s.disk.wait(true)
	if name, _ := s.names.Load(in.NodeId); name != nil && s.disk.fails(name.(string)) {
		return fuse.EIO
	}
	return s.RawFileSystem.Fsync(cancel, in)
}

func (s *slow) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	s.disk.wait(true)
	return s.RawFileSystem.FsyncDir(cancel, in)
}

func (s *slow) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.OpenDir(cancel, in, out)
}

func (s *slow) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.ReadDir(cancel, in, out)
}

func (s *slow) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.ReadDirPlus(cancel, in, out)
}

func (s *slow) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	s.disk.wait(false)
	return s.RawFileSystem.StatFs(cancel, header, out)
}

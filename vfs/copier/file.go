package copier

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"

	"capd/vfs"
)

// File is a file that is being copied. It is valid until [Sink].File returns.
type File struct {
	vfs.Content
	Info    vfs.Info    // shortly before it was opened
	Version vfs.Version // likewise, or that of small; the zero Version unless copied from Dir to Dir

	c     *copying
	size  int64  // reserved
	small []byte // all of it, if it was read whole
}

func (c *copying) file(d *dir, n vfs.File, name, path string) error {
	if c.o.onlyLook {
		if err := c.reserve(1, 0); err != nil {
			return err
		}
		return d.to.File(c.ctx, name, nil)
	}
	info, err := n.Stat(c.ctx)
	var is vfs.Version
	small := c.o.verify && info.Size <= smallSize
	if err == nil && c.o.verify && !small {
		is, err = vfs.VersionOf(c.ctx, n)
	}
	if err != nil {
		return c.skip(Unread{Path: path, Err: err})
	}
	content, err := vfs.Open(c.ctx, n)
	if err != nil {
		return c.skip(Unread{Path: path, Err: err})
	}
	defer content.Close()
	f := &File{Content: content, Info: info, Version: is, c: c, size: content.Size()}
	if f.size < 0 {
		return vfs.Errorf(vfs.Invalid, "its size is below 0")
	}
	if err := c.reserve(1, f.size); err != nil {
		return err
	}
	if small {
		buf := buffers.Get().(*[smallSize]byte)
		defer buffers.Put(buf)
		if err := f.readSmall(buf[:]); err != nil {
			return err
		}
	}
	if err := d.to.File(c.ctx, name, f); err != nil {
		return err
	}
	c.copied(Progress{Files: 1, Bytes: f.size})
	return nil
}

// smallSize is up to how many bytes a file is read once, whole: for its version, and to be
// put. A reader of memory does not keep a store waiting.
const smallSize = 128 << 10

// readSmall reads f into buf, which it keeps. It answers errAltered if f has grown since its
// size was asked for, or has become shorter since it was opened.
func (f *File) readSmall(buf []byte) error {
	if f.size > int64(len(buf)) {
		return errAltered
	}
	f.small = buf[:f.size]
	if n, err := io.ReadFull(io.NewSectionReader(f, 0, f.size), f.small); int64(n) < f.size {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errAltered
		}
		return err
	}
	f.Version = sha256.Sum256(f.small)
	vfs.Learn(f.Content, f.Version)
	return nil
}

// Grow says that the file has at least size bytes. It answers limit if there is no room
// for them. A sink that reads beyond the Size of a file calls it.
func (f *File) Grow(size int64) error {
	if size <= f.size {
		return nil
	}
	if err := f.c.reserve(0, size-f.size); err != nil {
		return err
	}
	f.size = size
	return nil
}

// HostFile is an empty file of the host that is open for reading and writing, such as
// an *os.File.
type HostFile interface {
	io.Writer
	io.ReaderAt
	Fd() uintptr
}

// buffers hold what is read and not yet written.
var buffers = sync.Pool{New: func() any { return new([smallSize]byte) }}

// CopyTo copies all of f to out, and returns its version. It clones the file where the
// file system can.
func (f *File) CopyTo(ctx context.Context, out HostFile) (vfs.Version, error) {
	from, w := io.ReaderAt(f.Content), io.Writer(out)
	switch err := vfs.Clone(f.Content, out.Fd()); {
	case err == nil:
		from, w = out, io.Discard // out is read once, for the version
	case vfs.CodeOf(err) != vfs.Unsupported:
		return vfs.Version{}, err
	}
	buf := buffers.Get().(*[smallSize]byte)
	defer buffers.Put(buf)
	sum := sha256.New()
	for size := int64(0); ; {
		n, end := from.ReadAt(buf[:], size)
		size += int64(n)
		err := f.Grow(size)
		if err == nil {
			sum.Write(buf[:n])
			_, err = w.Write(buf[:n])
		}
		switch {
		case err != nil:
			return vfs.Version{}, err
		case end == io.EOF:
			return vfs.Version(sum.Sum(nil)), nil
		case end != nil:
			return vfs.Version{}, end
		case ctx.Err() != nil:
			return vfs.Version{}, ctx.Err()
		}
	}
}

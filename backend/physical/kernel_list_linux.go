package physical

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// direntBytes is how much of a directory one getdents64 call reads.
const direntBytes = 128 << 10

var direntBuffers = sync.Pool{New: func() any { return new([direntBytes]byte) }}

// entries implements directory.
func (d *kernelDir) entries(each func([]vfs.Entry) error) error {
	fd, err := d.reopen()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.read64(fd, each)
}

// scan is entries for the directory called name.
func (d *kernelDir) scan(name string, each func([]vfs.Entry) error) error {
	fd, err := openat2(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	below := &kernelDir{h: d.h, fd: fd}
	return below.read64(fd, each)
}

// read64 reads entries with getdents64(2), which returns most kinds.
func (d *kernelDir) read64(fd int, each func([]vfs.Entry) error) error {
	buf := direntBuffers.Get().(*[direntBytes]byte)
	defer direntBuffers.Put(buf)
	for {
		var n int
		err := uninterrupted(func() (err error) { n, err = unix.Getdents(fd, buf[:]); return })
		if n <= 0 || err != nil {
			return err
		}
		some, err := d.parse(buf[:n])
		if err == nil {
			err = each(some)
		}
		if err != nil {
			return err
		}
	}
}

// parse reads the records of struct linux_dirent64 in buf.
func (d *kernelDir) parse(buf []byte) (all []vfs.Entry, err error) {
	const header = 19 // d_ino, d_off, d_reclen, d_type
	for len(buf) > header {
		size := int(binary.NativeEndian.Uint16(buf[16:]))
		if size <= header || size > len(buf) {
			return nil, unix.EIO
		}
		kind, name := buf[18], buf[header:size]
		buf = buf[size:]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." && s != "" {
			all = append(all, vfs.Entry{Name: s, Kind: d.kindOfType(kind, s)})
		}
	}
	return all, nil
}

func (d *kernelDir) kindOfType(t byte, name string) vfs.Kind {
	switch t {
	case unix.DT_REG:
		return vfs.FileKind
	case unix.DT_DIR:
		return vfs.DirKind
	case unix.DT_LNK:
		return vfs.LinkKind
	case unix.DT_UNKNOWN:
		if stx, err := d.h.statx(d.fd, name); err == nil {
			return kindOfMode(uint32(stx.Mode))
		}
	}
	return vfs.Other
}

package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"capd/hostfile"
	"capd/vfs"
)

// readTar reads a tar file of size bytes.
func (t *Tree) readTar(r io.ReaderAt, size int64) error {
	at := io.NewSectionReader(r, 0, size) // the reader of tar seeks, so where it stands is where a content begins
	in := tar.NewReader(at)
	for {
		h, err := in.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != tar.ErrInsecurePath: // names are checked below
			return reading(err)
		}
		begin, err := at.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if err := t.addTarred(h, r, begin, size); err != nil {
			return err
		}
	}
}

// addTarred adds the entry of h, whose content begins at begin of r, which has size bytes.
func (t *Tree) addTarred(h *tar.Header, r io.ReaderAt, begin, size int64) error {
	name := vfs.Printable(h.Name)
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			h.Typeflag = tar.TypeGNUSparse
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		return t.addDir(h.Name)
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeSymlink, tar.TypeLink:
		return vfs.Errorf(vfs.Unsupported, "%s is a link; an archive with links is not extracted", name)
	case tar.TypeGNUSparse:
		return vfs.Errorf(vfs.Unsupported, "%s is a sparse file; pack it as a plain one", name)
	default:
		return vfs.Errorf(vfs.NotRegular, "%s is neither a file nor a directory", name)
	}
	if h.Size > size-begin {
		return reading(io.ErrUnexpectedEOF)
	}
	return t.addFile(h.Name, h.Size, h.Mode&0o100 != 0, h.ModTime, func(ctx context.Context) (vfs.Content, error) {
		return vfs.NewContent(ctx, part{io.NewSectionReader(r, begin, h.Size)}, h.Size), nil
	})
}

// part is a content within the archive.
type part struct{ *io.SectionReader }

// Close implements io.Closer.
func (part) Close() error { return nil }

// maxWindow is how many bytes a zstd decoder may look back. RFC 8878, 3.1.1.1.2, asks for 8 MiB.
const maxWindow = 8 << 20

// readPacked unpacks a compressed tar file to a temporary file, and reads that.
func (t *Tree) readPacked(r source, f Format) error {
	temp, err := hostfile.NewTemp("capd-archive-*")
	if err != nil {
		return vfs.Hide(err)
	}
	t.spool = temp
	packed := bufio.NewReaderSize(io.NewSectionReader(r, 0, r.Size()), 64<<10)
	in, end, err := unpacker(packed, f)
	if err != nil {
		return reading(err)
	}
	defer end()
	spool := &spooling{tree: t, ctx: r.ctx, to: temp}
	if _, err := io.Copy(spool, in); err != nil {
		if errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return vfs.Errorf(vfs.Limit, "unpacking the archive needs more than %d MiB of memory; compress it with a smaller window", maxWindow>>20)
		}
		return reading(err)
	}
	return t.readTar(temp, spool.size)
}

func unpacker(r io.Reader, f Format) (io.Reader, func(), error) {
	if f == TarGzip {
		in, err := gzip.NewReader(r)
		return in, func() {}, err
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	return in, in.Close, nil
}

// maxSpool is how many bytes a compressed tar file may have when it is unpacked.
const maxSpool = 1 << 30

// spooling writes what is unpacked, as far as the limits allow.
type spooling struct {
	tree *Tree
	ctx  context.Context
	to   *hostfile.Temp
	size int64
}

func (s *spooling) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	size := s.size + int64(len(p))
	if err := s.tree.dense(size); err != nil {
		return 0, err
	}
	if size > maxSpool {
		return 0, vfs.Errorf(vfs.Limit, "the archive unpacks to more than %d MiB; use zip, or several archives", maxSpool>>20)
	}
	if err := s.tree.limits.Disk(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := s.to.WriteAt(p, s.size)
	if s.size += int64(n); err != nil {
		err = vfs.Hide(err)
	}
	return n, err
}

package archive

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/klauspost/compress/zstd"

	"capd/vfs"
	"capd/vfs/copier"
)

// Write writes what is in d to w, as an archive of the format f: files with their times and executable bits, directories, and
// links, in tree order. Of o it sets the fields that such an archive needs. The archive of a tree that does not change is always
// the same. Write answers the errors of [copier.Copy], conflict for a file that becomes shorter meanwhile, and an error of w
// unchanged. What was written before an error is no archive.
func Write(ctx context.Context, d vfs.Dir, w io.Writer, f Format, o copier.Options) error {
	p, err := newPacker(w, f)
	if err != nil {
		return err
	}
	o.Workers = 1 // one after the other
	return cmp.Or(copier.Copy(ctx, d, &folder{packer: p}, o), p.Close())
}

// packer adds entries to an archive.
type packer interface {
	// add adds an entry of size bytes, which are written to the writer that it returns.
	add(path string, mode fs.FileMode, modifiedMs, size int64) (io.Writer, error)
	link(path, target string) error
	io.Closer
}

func newPacker(w io.Writer, f Format) (packer, error) {
	switch f {
	case Zip:
		return zipper{zip.NewWriter(w)}, nil
	case Tar:
		return &tarrer{Writer: tar.NewWriter(w)}, nil
	case TarGzip:
		z := gzip.NewWriter(w)
		return &tarrer{tar.NewWriter(z), z}, nil
	case TarZstd:
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindow))
		return &tarrer{tar.NewWriter(z), z}, err
	}
	_, err := ParseFormat(string(f))
	return nil, err
}

// folder is a directory of the archive, as a sink of a copy.
type folder struct {
	packer
	path string
}

// Mkdir implements [copier.Sink].
func (d *folder) Mkdir(_ context.Context, name string, info vfs.Info) (copier.Sink, error) {
	path := vfs.Join(d.path, name)
	_, err := d.add(path, fs.ModeDir|0o755, info.ModifiedMs, 0)
	return &folder{d.packer, path}, err
}

// File implements [copier.Sink].
func (d *folder) File(ctx context.Context, name string, f *copier.File) error {
	mode := fs.FileMode(0o644)
	if f.Info.Exec {
		mode = 0o755
	}
	w, err := d.add(vfs.Join(d.path, name), mode, f.Info.ModifiedMs, f.Size())
	if err != nil {
		return err
	}
	_, err = vfs.Copy(ctx, w, io.NewSectionReader(f, 0, f.Size()))
	if err == io.ErrUnexpectedEOF {
		err = vfs.Errorf(vfs.Conflict, "it became shorter while it was read; try again")
	}
	return err
}

// Link implements [copier.Sink].
func (d *folder) Link(_ context.Context, name, target string) error {
	return d.link(vfs.Join(d.path, name), target)
}

// End implements [copier.Sink].
func (d *folder) End(context.Context, bool) error { return nil }

// tarrer writes a tar file, and what compresses it, if that is not nil.
type tarrer struct {
	*tar.Writer
	outer io.Closer
}

func (t *tarrer) add(path string, mode fs.FileMode, modifiedMs, size int64) (io.Writer, error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: int64(mode.Perm()), Size: size, ModTime: time.UnixMilli(modifiedMs).Truncate(time.Second)}
	if mode.IsDir() {
		h.Typeflag, h.Name = tar.TypeDir, path+"/"
	}
	return t.Writer, t.WriteHeader(h)
}

func (t *tarrer) link(path, target string) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777})
}

// Close ends the archive.
func (t *tarrer) Close() error {
	err := t.Writer.Close()
	if t.outer != nil {
		err = cmp.Or(err, t.outer.Close())
	}
	return err
}

// zipper writes a zip file.
type zipper struct{ *zip.Writer }

func (z zipper) add(path string, mode fs.FileMode, modifiedMs, _ int64) (io.Writer, error) {
	h := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: time.UnixMilli(modifiedMs).UTC()}
	if h.SetMode(mode); mode.IsDir() {
		h.Name, h.Method = path+"/", zip.Store
	}
	return z.CreateHeader(h)
}

func (z zipper) link(path, target string) error {
	h := &zip.FileHeader{Name: path, Method: zip.Store}
	h.SetMode(fs.ModeSymlink | 0o777)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = io.WriteString(w, target)
	}
	return err
}

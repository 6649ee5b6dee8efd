package archive

import (
	"archive/zip"
	"cmp"
	"context"
	"io"
	"io/fs"
	"math"
	"slices"

	"capd/vfs"
)

// maxDirectory is how many bytes a zip file's directory may have. Each entry needs some
// 300 bytes of memory while the directory is read, however short it is there.
const maxDirectory = 16 << 20

// readZip reads a zip file. What its directory says holds. The names that stand before the contents are not looked at.
func (t *Tree) readZip(r source) error {
	directory := &bounded{r: r, left: maxDirectory, take: t.limits.Memory}
	z, err := zip.NewReader(directory, r.Size())
	switch {
	case directory.refused != nil:
		return directory.refused
	case directory.left < 0:
		return vfs.Errorf(vfs.Limit, "the archive's directory has more than %d bytes", maxDirectory)
	case err != nil && err != zip.ErrInsecurePath: // names are checked below
		return reading(err)
	}
	directory.left, directory.take = math.MaxInt64, unbounded // now it reads contents
	all := make([]extent, 0, len(z.File))
	for _, f := range z.File {
		e, err := t.addZipped(f)
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	return apart(all)
}

// encrypted is the flag of an encrypted entry (APPNOTE.TXT 4.4.4).
const encrypted = 1

// addZipped adds f, and returns where it lies.
func (t *Tree) addZipped(f *zip.File) (at extent, err error) {
	name := vfs.Printable(f.Name)
	switch mode := f.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return at, vfs.Errorf(vfs.Unsupported, "%s is a link; an archive with links is not extracted", name)
	case mode.IsDir():
		err = t.addDir(f.Name)
	case !mode.IsRegular():
		return at, vfs.Errorf(vfs.NotRegular, "%s is neither a file nor a directory", name)
	case f.Flags&encrypted != 0:
		return at, vfs.Errorf(vfs.Unsupported, "%s is encrypted", name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return at, vfs.Errorf(vfs.Unsupported, "%s is compressed in a way that is not known (%d)", name, f.Method)
	case f.UncompressedSize64 > math.MaxInt64 || f.CompressedSize64 > math.MaxInt64:
		return at, vfs.Errorf(vfs.Invalid, "%s has an impossible size", name)
	default:
		size := int64(f.UncompressedSize64)
		err = t.addFile(f.Name, size, mode&0o100 != 0, f.Modified, func(ctx context.Context) (vfs.Content, error) {
			return vfs.NewContent(ctx, &forward{open: f.Open, size: size}, size), nil
		})
	}
	if err != nil {
		return at, err
	}
	begin, err := f.DataOffset()
	if err != nil {
		return at, reading(err)
	}
	return extent{f.Name, begin - localHeader - int64(len(f.Name)), begin + int64(f.CompressedSize64)}, nil
}

// localHeader is the size in bytes of what stands before an entry's name and content (APPNOTE.TXT 4.3.7).
const localHeader = 30

// extent is where an entry lies in the archive: from begin to before end, in bytes.
type extent struct {
	name       string
	begin, end int64
}

// apart answers invalid if two of all share bytes: so a small file could hold any number of entries.
func apart(all []extent) error {
	slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.begin, b.begin) })
	for i := 1; i < len(all); i++ {
		if all[i].begin < all[i-1].end {
			return vfs.Errorf(vfs.Invalid, "the entries %s and %s of the archive share bytes", vfs.Printable(all[i-1].name), vfs.Printable(all[i].name))
		}
	}
	return nil
}

// directoryBytes is about how much memory a byte of a zip file's directory takes.
const directoryBytes = 8

// bounded reads at most left bytes. Then left is below 0. take allows the memory for each.
type bounded struct {
	r       io.ReaderAt
	left    int64
	take    func(int64) error
	refused error // by take
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.refused = b.take(directoryBytes * int64(len(p))); b.refused != nil {
		return 0, b.refused
	}
	if b.left < math.MaxInt64 {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	return b.r.ReadAt(p, off)
}

package worlds

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"capd/vfs"
)

// A tally summarizes contents, whatever their order.
type tally struct {
	files, bytes int64
	sums         uint64 // the sum of their CRC-32Cs
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *tally) add(content []byte) { t.sum(int64(len(content)), crc32.Checksum(content, castagnoli)) }

func (t *tally) sum(size int64, crc uint32) {
	t.files++
	t.bytes += size
	t.sums += uint64(crc)
}

// is returns an error unless t is want.
func (t tally) is(what string, want tally) error {
	if t != want {
		return differ(what, fmt.Sprintf("%+v", t), fmt.Sprintf("%+v", want))
	}
	return nil
}

// tallyDir tallies a host directory: names as well as contents.
func tallyDir(dir string) (t tally, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(dir, path)
		t.add(append(b, path...))
		return err
	})
	return t, err
}

// A reader reads files of any Dir, one after the other, and tallies them.
type reader struct {
	tally
	buf [64 << 10]byte
}

// all reads every file and link below d.
func (r *reader) all(ctx context.Context, d vfs.Dir) error {
	for e, err := range d.List(ctx) {
		if err != nil {
			return err
		}
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			return err
		}
		switch n := n.(type) {
		case vfs.Dir:
			err = r.all(ctx, n)
		case vfs.File:
			err = r.file(ctx, n)
		case vfs.Link:
			var target string
			target, err = n.Target(ctx)
			r.add([]byte(target))
		}
		n.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) file(ctx context.Context, f vfs.File) error {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return err
	}
	defer c.Close()
	var size int64
	var crc uint32
	for {
		n, err := c.ReadAt(r.buf[:], size)
		size += int64(n)
		crc = crc32.Update(crc, castagnoli, r.buf[:n])
		if err == io.EOF {
			r.sum(size, crc)
			return nil
		} else if err != nil {
			return err
		}
	}
}

// list collects the paths below d of everything that is not a directory.
func list(ctx context.Context, d vfs.Dir, at string, paths *[]string) error {
	for e, err := range d.List(ctx) {
		if err != nil {
			return err
		}
		path := vfs.Join(at, e.Name)
		if e.Kind != vfs.DirKind {
			*paths = append(*paths, path)
			continue
		}
		sub, err := vfs.WalkDir(ctx, d, e.Name)
		if err != nil {
			return err
		}
		err = list(ctx, sub, path, paths)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// same compares two sets of paths.
func same(got, want []string) error {
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return differ("a path", got[i], want[i])
		}
	}
	return differ("paths", len(got), len(want))
}

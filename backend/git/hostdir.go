package git

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"capd/hostfile"
	"capd/vfs"
)

// hostDir is a directory of the host that holds files of a repository. Names below it
// use slashes.
type hostDir struct {
	path string
	root *os.Root // links that lead out of it are not followed; nil follows every link
	at   string   // path of this directory below root
}

func (d hostDir) sub(name string) hostDir {
	return hostDir{d.full(name), d.root, path.Join(d.at, name)}
}

// full returns the host's path of name.
func (d hostDir) full(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

func (d hostDir) below(name string) string { return filepath.FromSlash(path.Join(d.at, name)) }

// open opens a file for reading. It answers corrupt for anything but a regular file. It
// never blocks on a FIFO.
func (d hostDir) open(name string) (*os.File, error) {
	f, err := d.openAny(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = flawed(vfs.Corrupt, "%s is no regular file", d.full(name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d hostDir) openAny(name string) (*os.File, error) {
	if d.root == nil {
		return os.OpenFile(d.full(name), os.O_RDONLY|hostfile.NeverWait, 0)
	}
	return d.root.OpenFile(d.below(name), os.O_RDONLY|hostfile.NeverWait, 0)
}

func (d hostDir) stat(name string) (fs.FileInfo, error) {
	if d.root == nil {
		return os.Stat(d.full(name))
	}
	return d.root.Stat(d.below(name))
}

func (d hostDir) lstat(name string) (fs.FileInfo, error) {
	if d.root == nil {
		return os.Lstat(d.full(name))
	}
	return d.root.Lstat(d.below(name))
}

func (d hostDir) isDir(name string) bool {
	info, err := d.stat(name)
	return err == nil && info.IsDir()
}

// readDir returns the entries of a directory, in order of names.
func (d hostDir) readDir(name string) ([]fs.DirEntry, error) {
	f, err := d.openAny(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(-1)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, err
}

// maxSmallFile bounds, in bytes, the files of a repository that are read whole: the
// configuration, HEAD, a ref.
const maxSmallFile = 1 << 20

// readSmall reads a whole file of at most maxSmallFile bytes.
func (d hostDir) readSmall(name string) (string, error) {
	f, err := d.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readBounded(f, maxSmallFile)
}

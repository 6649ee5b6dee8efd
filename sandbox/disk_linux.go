package sandbox

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// maxDepth is how deep a tree may be, as for a path.
const maxDepth = vfs.MaxDepth

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// walk calls visit for everything below dir. It uses directory descriptors and names,
// so it follows no link however the tree changes meanwhile. It answers limit below
// maxDepth.
func walk(dir string, visit func(at int, name string, st *unix.Stat_t) error) error {
	fd, err := unix.Open(dir, dirFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return walkFD(fd, maxDepth, visit)
}

// walkFD is walk for an open directory, which it closes.
func walkFD(fd, depth int, visit func(at int, name string, st *unix.Stat_t) error) error {
	dir := os.NewFile(uintptr(fd), "directory")
	defer dir.Close()
	if depth == 0 {
		return vfs.Errorf(vfs.Limit, "directories are more than %d deep", maxDepth)
	}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // removed meanwhile
			}
			if err := visit(fd, name, &st); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			sub, err := unix.Openat(fd, name, dirFlags, 0)
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
				return err
			}
			if err != nil {
				continue // removed, or its owner cannot read it
			}
			if err := walkFD(sub, depth-1, visit); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // this is the end, or the directory itself was removed
		}
	}
}

// disk watches how much a run stores.
type disk struct {
	dirs    []string
	before  int64
	growth  int64
	reserve map[string]uint64 // for each of dirs: bytes that must stay free on its filesystem
}

// maxReserve is how many bytes of free space a run leaves to others, if there are as
// many.
const maxReserve = 1 << 30

// newDisk measures dirs before the run.
func newDisk(growth int64, dirs ...string) (*disk, error) {
	d := &disk{dirs: dirs, growth: growth, reserve: map[string]uint64{}}
	for _, dir := range dirs {
		free, err := freeBytes(dir)
		if err != nil {
			return nil, err
		}
		d.reserve[dir] = min(free/2, maxReserve)
	}
	var err error
	d.before, err = d.used()
	return d, err
}

// check answers limit when the run stores too much. Files without a name, and files in
// a directory that its owner locked, show only in the free space.
func (d *disk) check() error {
	for dir, reserve := range d.reserve {
		if free, err := freeBytes(dir); err == nil && free < reserve {
			return vfs.Errorf(vfs.Limit, "the disk is nearly full (%d MiB are free), and the run was stopped", free>>20)
		}
	}
	used, err := d.used()
	if err != nil {
		return err
	}
	if used-d.before > d.growth {
		return vfs.Errorf(vfs.Limit, "the run stored more than its %d bytes of disk and was stopped; give it more", d.growth)
	}
	return nil
}

// used returns how many bytes d's directories occupy, counting at least 4096 for each
// entry.
func (d *disk) used() (int64, error) {
	var sum int64
	for _, dir := range d.dirs {
		err := walk(dir, func(_ int, _ string, st *unix.Stat_t) error {
			sum += max(st.Blocks*512, 4096)
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrPermission) { // of dir itself: its owner locked it
			return 0, err
		}
	}
	return sum, nil
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

package physical

import (
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// confined is how every path is resolved: below the root, through no link and no mount.
// See openat2(2); no links means no magic links either.
const confined = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// kernelHost confines with openat2(2), Linux 5.6.
type kernelHost struct {
	root   int // O_PATH, open for the life of the store
	mount  uint64
	traits             // of the file system
	cache  bool        // the kernel has resolveCached: Linux 5.12
	waits  atomic.Bool // every read may have to wait
	open   *descriptors

	top, triedTop *kernelDir // the root, opened for every operation

	changes changes
}

// openKernel opens the host. It answers an error that is not a *vfs.Error when openat2
// is missing in this kernel, or blocked by a filter on system calls.
func openKernel(dir *os.File, maxDescriptors int, shared bool) (host, error) {
	root, err := unix.Openat(int(dir.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	probe, err := openat2(root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		unix.Close(root)
		return nil, err
	}
	unix.Close(probe)
	stx, err := statx(root, "", 0)
	if err != nil {
		unix.Close(root)
		return nil, err
	}
	h := &kernelHost{root: root, mount: stx.Mnt_id, open: newDescriptors(maxDescriptors, shared)}
	h.changes.last = recent.New[fileKey, int64](maxLast, nil)
	h.top, h.triedTop = &kernelDir{h: h, fd: root}, &kernelDir{h: h, fd: root, try: true}
	var sfs unix.Statfs_t
	if unix.Fstatfs(root, &sfs) == nil {
		h.traits = traitsOf(int64(sfs.Type))
	}
	if probe, err := openCached(root, ".", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		unix.Close(probe)
		h.cache = true
	}
	return h, nil
}

func (h *kernelHost) confinement() string { return "kernel" }

func (h *kernelHost) near(k vfs.Keep) bool { return h.mount != 0 && k.Near(h.mount) }

func (h *kernelHost) close() {
	h.open.close()
	unix.Close(h.root)
}

// enter resolves the path each time. A cached descriptor of the directory keeps its
// inode number from being reused, so comparing numbers is enough. Without one it
// compares handles. The work is always done on the descriptor just resolved.
func (h *kernelHost) enter(p place, try bool) (directory, error) {
	if p.path == "" {
		return h.topFor(try), nil
	}
	d := &kernelDir{h: h, fd: h.root, path: p.path, try: try}
	fd, err := d.descend(p.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return nil, vfs.Stale
	default:
		return nil, err
	}
	d.fd, d.owned = fd, true
	if err := h.verify(fd, p); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

func (h *kernelHost) tries() bool { return h.cache && h.prompt }

// topFor returns the root, which does not wait if try is set.
func (h *kernelHost) topFor(try bool) *kernelDir {
	if try {
		return h.triedTop
	}
	return h.top
}

func (h *kernelHost) verify(fd int, p place) error {
	stx, err := h.statx(fd, "")
	if err != nil {
		return err
	}
	if h.open.holds(p.path, p.id, devOf(&stx), stx.Ino) {
		return nil
	}
	if !identOf(fd, &stx).same(p.id) {
		return vfs.Stale
	}
	h.open.keep(p.path, p.id, devOf(&stx), stx.Ino, fd)
	return nil
}

// resolveCached is RESOLVE_CACHED: openat2(2) answers EAGAIN instead of asking the disk
// for a name.
const resolveCached = 0x20

// openCached is openat2 without waiting: it answers vfs.ErrWouldBlock for names that
// are not in memory. It does not retry as openat2 does.
func openCached(dir int, path string, flags int) (int, error) {
	fd, err := openOnce(dir, path, flags, 0, confined|resolveCached)
	switch err {
	case unix.EAGAIN, unix.EXDEV, unix.EINTR:
		return -1, vfs.ErrWouldBlock
	}
	return fd, err
}

// identAt identifies the directory at path. fd is a descriptor of it, and stx is what
// statx returned for it. If keep is set, the directory is likely to be entered soon.
func (h *kernelHost) identAt(path string, fd int, stx *unix.Statx_t, keep bool) ident {
	if id, ok := h.open.ident(path, devOf(stx), stx.Ino); ok {
		return id
	}
	id := identOf(fd, stx)
	if keep || id.handle == "" { // a number may be reused: pin it while there is room
		h.open.keep(path, id, id.dev, id.ino, fd)
	}
	return id
}

// openOnce opens one path, resolved as resolve says.
func openOnce(dir int, path string, flags int, mode os.FileMode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: resolve}
	fd, err := unix.Openat2(dir, path, &how)
	if err == unix.EMFILE || err == unix.ENFILE {
		return withRoom(func() (int, error) { return unix.Openat2(dir, path, &how) })
	}
	return fd, err
}

// crossings is how often a lookup is tried that seems to lead out of the directory. Beside a program
// that renames without a pause more than half of them may.
const crossings = 64

// openat2 opens one path, confined. It never waits and follows no link.
func openat2(dir int, path string, flags int, mode os.FileMode) (int, error) {
	for try := 0; ; {
		fd, err := openOnce(dir, path, flags, mode, confined)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && try < again: // see openat2(2), ERRORS
			try++
		case err == unix.EXDEV && try < crossings: // a mount, or it was renamed out of dir during the lookup
			try++
		default:
			return fd, err
		}
	}
}

// statx stats name in dir, or dir itself for "". It follows no link.
func statx(dir int, name string, flags int) (unix.Statx_t, error) {
	var stx unix.Statx_t
	flags |= unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := uninterrupted(func() error {
		return unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &stx)
	})
	return stx, err
}

// statx is the function statx with the host's flags. A prompt file system answers from
// memory. With AT_STATX_DONT_SYNC a mount on top of it does not ask its server either.
func (h *kernelHost) statx(dir int, name string) (unix.Statx_t, error) {
	return statx(dir, name, h.flags())
}

func (h *kernelHost) flags() int {
	if h.prompt {
		return unix.AT_STATX_DONT_SYNC
	}
	return 0
}

// describe returns the attributes of fd's file.
func (h *kernelHost) describe(fd int) (attr, error) {
	stx, err := h.statx(fd, "")
	if err != nil {
		return attr{}, err
	}
	return attrOfStatx(&stx), nil
}

func fstat(fd int, st *unix.Stat_t) error {
	return uninterrupted(func() error { return unix.Fstat(fd, st) })
}

func uninterrupted(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// identOf identifies the directory that fd is open on. stx is what statx returned for it.
// AT_HANDLE_FID, Linux 6.5, gives a handle on nearly every file system; see
// name_to_handle_at(2).
func identOf(fd int, stx *unix.Statx_t) ident {
	id := ident{
		dev:   devOf(stx),
		ino:   stx.Ino,
		btime: stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec),
	}
	for _, flag := range []int{handleFID, 0} {
		h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH|flag)
		if err == nil {
			id.handle = strconv.Itoa(int(h.Type())) + ":" + string(h.Bytes())
			break
		}
	}
	return id
}

const handleFID = 0x200 // AT_HANDLE_FID

func devOf(stx *unix.Statx_t) uint64 { return unix.Mkdev(stx.Dev_major, stx.Dev_minor) }

func attrOfStatx(stx *unix.Statx_t) attr {
	return attr{
		kind:   kindOfMode(uint32(stx.Mode)),
		size:   int64(stx.Size),
		perm:   os.FileMode(stx.Mode & 0o777),
		setgid: stx.Mode&unix.S_ISGID != 0,
		mtime:  stx.Mtime.Sec*1e9 + int64(stx.Mtime.Nsec),
		ctime:  stx.Ctime.Sec*1e9 + int64(stx.Ctime.Nsec),
		dev:    devOf(stx),
		ino:    stx.Ino,
		nlink:  uint64(stx.Nlink),
		uid:    stx.Uid,
		gid:    stx.Gid,
	}
}

func attrOfStat(st *unix.Stat_t) attr {
	return attr{
		kind:   kindOfMode(st.Mode),
		size:   st.Size,
		perm:   os.FileMode(st.Mode & 0o777),
		setgid: st.Mode&unix.S_ISGID != 0,
		mtime:  st.Mtim.Nano(),
		ctime:  st.Ctim.Nano(),
		dev:    uint64(st.Dev),
		ino:    st.Ino,
		nlink:  uint64(st.Nlink),
		uid:    st.Uid,
		gid:    st.Gid,
	}
}

func kindOfMode(mode uint32) vfs.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return vfs.FileKind
	case unix.S_IFDIR:
		return vfs.DirKind
	case unix.S_IFLNK:
		return vfs.LinkKind
	}
	return vfs.Other
}

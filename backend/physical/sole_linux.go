package physical

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// openSole looks the file up, opens it and looks at it again. Adding or removing a name
// of a file sets its time of change. If that time is the same both times and the file
// has one name, it had one name all the while. It was opened by its path from the root,
// so that name is this one.
//
// A name that is being removed can be found for a moment after the file's count of
// names went down. The barrier between the two looks waits until that is over.
func (d *kernelDir) openSole(name string, flag int) (*os.File, attr, error) {
	for range again {
		now := d.h.changes.now()
		found, err := d.lstat(name)
		if err == nil {
			err = found.regular()
		}
		if err == nil {
			err = sole(found)
		}
		if err != nil {
			return nil, attr{}, err
		}
		if !d.h.changes.show(d, found, now) {
			return nil, attr{}, errUnsettled
		}
		if err := d.barrier(name); err != nil {
			return nil, attr{}, err
		}
		fd, a, err := openRegular(d.h.root, vfs.Join(d.path, name), flag)
		if err != nil {
			return nil, attr{}, err
		}
		if soleBetween(found, a) {
			f, err := blocking(fd)
			return f, a, err
		}
		unix.Close(fd)
	}
	return nil, attr{}, errKeepsChanging
}

// barrier waits until every change of names under way in d is done. It renames name to
// itself, which takes the directory's lock and changes nothing; see renameat2(2). With
// RENAME_NOREPLACE the kernel stops at EEXIST, before it checks permissions.
func (d *kernelDir) barrier(name string) error {
	err := uninterrupted(func() error { return unix.Renameat2(d.fd, name, d.fd, name, unix.RENAME_NOREPLACE) })
	switch err {
	case unix.EEXIST:
		return nil
	case unix.EINVAL, unix.ENOSYS:
		return uninterrupted(func() error { return unix.Renameat(d.fd, name, d.fd, name) })
	}
	return err
}

func (h *kernelHost) changed(a attr) { h.changes.made(a) }

// changes tells whether a later change of a file's names would show in its time of
// change.
//
// On Linux 6.13 and later it does, on most file systems. On others the time comes from
// a clock that ticks every 1 to 10 ms, and a second change in one tick does not show.
// There, openSole accepts a file changed in the present tick only if this store changed
// it last, since the store then saw it with one name in this tick.
type changes struct {
	exact atomic.Int32                  // whether every change shows: unknown, always, ticks
	last  *recent.Cache[fileKey, int64] // times of change made by this store, where the clock ticks
}

const (
	unknown int32 = iota
	always
	ticks
)

// maxLast bounds changes.last. An entry is about 50 bytes.
const maxLast = 4096

// now returns the clock from which ticking times of change come, in nanoseconds since
// the Unix epoch: CLOCK_REALTIME_COARSE of clock_gettime(2).
func (c *changes) now() int64 {
	var t unix.Timespec
	if c.exact.Load() == always || unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return 0
	}
	return t.Nano()
}

// show reports whether a change of a's names after a was seen would show. a was seen at
// now or later.
func (c *changes) show(d *kernelDir, a attr, now int64) bool {
	if c.exact.Load() == always || past(a.ctime, now) {
		return true
	}
	if c.exact.Load() == unknown {
		c.exact.Store(probe(d.fd))
	}
	return c.exact.Load() == always || c.mine(a)
}

// past reports whether the tick in which a file was changed was over by now. A file
// system that stores whole seconds is recognised by its times.
func past(ctime, now int64) bool {
	if ctime%1e9 == 0 {
		ctime += 1e9 - 1
	}
	return ctime < now
}

func (c *changes) mine(a attr) bool {
	ctime, ok := c.last.Get(a.fileKey(), nil)
	return ok && ctime == a.ctime
}

// made notes a change that this store made.
func (c *changes) made(a attr) {
	if c.exact.Load() != always {
		c.last.Add(a.fileKey(), a.ctime, 1)
	}
}

// probe changes an unnamed file a few times, as fast as it can, and checks whether each
// change shows. The result is unknown where no such file can be made.
func probe(dir int) int32 {
	fd, err := openat2(dir, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		return unknown
	}
	defer unix.Close(fd)
	var before, after unix.Stat_t
	for i := range uint32(8) {
		if fstat(fd, &before) != nil || unix.Fchmod(fd, 0o600|i%2) != nil || fstat(fd, &after) != nil {
			return unknown
		}
		if before.Ctim == after.Ctim {
			return ticks
		}
	}
	return always
}

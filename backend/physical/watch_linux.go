package physical

import (
	"context"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// notifier is the process's instance of inotify(7). There is one at most, since a user has few. It is there while anything is watched.
type notifier struct {
	lock chan struct{} // holds one value while nobody has it

	file *os.File // nil while nothing is watched
	fd   int
	mine madeDirs
	dirs map[int32][]*dirWatch // by watch descriptor: one for each Watch that has the directory
	all  map[*watching]struct{}
}

var notifications = &notifier{lock: make(chan struct{}, 1)}

func init() { notifications.lock <- struct{}{} }

// watchMask is what is told of a directory. What happens to an open file that has no name any more is left out.
const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_CLOSE_WRITE |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// gather is how long the reader waits for more events before it looks at some.
const gather = 5 * time.Millisecond

func (n *notifier) take(ctx context.Context) error {
	select {
	case <-n.lock:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *notifier) give() { n.lock <- struct{}{} }

// watch begins to watch the directory at p.
func (s *Store) watch(ctx context.Context, p place, o vfs.Watch) (vfs.Watching, error) {
	h, ok := s.host.(*kernelHost)
	if !ok || !h.prompt {
		return nil, errNoWatch
	}
	n := notifications
	if err := n.take(ctx); err != nil {
		return nil, err
	}
	defer n.give()
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.left()
	if err := n.start(); err != nil {
		return nil, err
	}
	w := &watching{n: n, s: s, h: h, base: p, Watch: o}
	n.all[w] = struct{}{}
	n.mine.on.Store(true)
	if err := w.begin(ctx); err != nil {
		w.end(false)
		n.stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, gone(explain(err))
	}
	return w, nil
}

// unwatch ends what is watched in s, which ends.
func (s *Store) unwatch() {
	n := notifications
	<-n.lock
	defer n.give()
	for w := range n.all {
		if w.s == s {
			w.end(true)
		}
	}
	n.stop()
}

// start opens the instance unless it is open.
func (n *notifier) start() error {
	if n.file != nil {
		return nil
	}
	fd, err := withRoom(func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) })
	if err != nil { // a user has a number of instances at most
		return errNoWatch
	}
	n.fd, n.file = fd, os.NewFile(uintptr(fd), "inotify")
	n.dirs, n.all = map[int32][]*dirWatch{}, map[*watching]struct{}{}
	go n.read(n.file)
	return nil
}

// stop closes the instance if nothing is watched any more.
func (n *notifier) stop() {
	if n.file != nil && len(n.all) == 0 {
		n.file.Close()
		n.file, n.dirs = nil, nil
		n.mine.forget()
	}
}

// read tells what happens, until file is closed.
func (n *notifier) read(file *os.File) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	for {
		if conn.Read(func(fd uintptr) bool { return queued(int(fd)) > 0 }) != nil {
			return
		}
		time.Sleep(gather)
		<-n.lock
		if n.file == file {
			n.drain()
		}
		n.give()
	}
}

// queued returns how many bytes of events wait.
func queued(fd int) int {
	size, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return size
}

// drain notes the events that wait, and tells them.
func (n *notifier) drain() {
	for range 5 {
		n.note()
		again := false
		for w := range n.all {
			w.flush()
			again = again || w.early
		}
		if !again {
			return
		}
		time.Sleep(time.Millisecond)
	}
	for w := range n.all {
		if w.early {
			w.lose()
		}
	}
}

// note notes the events that wait now.
func (n *notifier) note() {
	buf := direntBuffers.Get().(*[direntBytes]byte)
	defer direntBuffers.Put(buf)
	for left, late := queued(n.fd), 0; left > 0; {
		size, err := unix.Read(n.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if size <= 0 || err != nil {
			return
		}
		n.events(buf[:size])
		if left -= size; left <= 0 && late < 3 && n.halfMoved() { // the other half of a rename comes at once
			time.Sleep(time.Millisecond)
			left, late = queued(n.fd), late+1
		}
	}
}

// halfMoved reports whether something was renamed of which it is not known where to.
func (n *notifier) halfMoved() bool {
	for w := range n.all {
		if len(w.froms) > 0 {
			return true
		}
	}
	return false
}

// events reads the records of struct inotify_event in buf.
func (n *notifier) events(buf []byte) {
	const header = unix.SizeofInotifyEvent
	for len(buf) >= header {
		wd, mask := int32(binary.NativeEndian.Uint32(buf)), binary.NativeEndian.Uint32(buf[4:])
		cookie, size := binary.NativeEndian.Uint32(buf[8:]), int(binary.NativeEndian.Uint32(buf[12:]))
		name := strings.TrimRight(string(buf[header:header+size]), "\x00")
		buf = buf[header+size:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			for w := range n.all {
				w.lose()
			}
		case mask&unix.IN_IGNORED != 0:
			n.ignored(wd)
		case name == "" || mask&unix.IN_UNMOUNT != 0:
			for _, d := range n.dirs[wd] {
				if d == d.w.root && mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 || mask&unix.IN_UNMOUNT != 0 {
					d.w.lose()
				}
			}
		case !hidden(name):
			for _, d := range n.dirs[wd] {
				d.w.note(d, name, mask, cookie)
			}
		}
	}
}

// add watches the directory that fd is open on, whatever its path is now.
func (n *notifier) add(fd int, d *dirWatch) (int32, error) {
	wd, err := unix.InotifyAddWatch(n.fd, "/proc/self/fd/"+strconv.Itoa(fd), watchMask)
	if err != nil {
		return 0, err
	}
	n.dirs[int32(wd)] = append(n.dirs[int32(wd)], d)
	return int32(wd), nil
}

// remove undoes add.
func (n *notifier) remove(d *dirWatch) {
	wd := d.wd
	d.wd = 0
	all := n.dirs[wd]
	for i, other := range all {
		if other == d {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(all) > 0 {
		n.dirs[wd] = all
		return
	}
	if _, ok := n.dirs[wd]; ok {
		delete(n.dirs, wd)
		_, _ = unix.InotifyRmWatch(n.fd, uint32(wd))
	}
}

// ignored notes that the kernel does not watch wd any more.
func (n *notifier) ignored(wd int32) {
	for _, d := range n.dirs[wd] {
		d.wd = 0
		_ = d.w.Count(-1)
	}
	delete(n.dirs, wd)
}

// Sync implements vfs.Watching.
func (w *watching) Sync(ctx context.Context) error {
	n := w.n
	if err := n.take(ctx); err != nil {
		return err
	}
	defer n.give()
	if w.over {
		return vfs.Stale
	}
	n.drain()
	if w.over {
		return vfs.Stale
	}
	if !w.lost {
		return nil
	}
	if err := w.s.begin(); err != nil {
		return err
	}
	defer w.s.left()
	w.drop(w.root)
	w.dropLost()
	if err := w.begin(ctx); err != nil {
		if ctx.Err() != nil {
			w.lost = true
			return ctx.Err()
		}
		w.end(false)
		n.stop()
		return vfs.Stale
	}
	w.Tell([]vfs.Notice{{Kind: vfs.Lost}})
	return nil
}

// Stop implements vfs.Watching.
func (w *watching) Stop() {
	<-w.n.lock
	defer w.n.give()
	w.end(false)
	w.n.stop()
}

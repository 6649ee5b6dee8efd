// Package slowfs mounts slow or hanging file systems for tests. They are real FUSE
// mounts. So a system call on one blocks in the kernel, as it does when a disk or a file
// server has stopped answering.
//
// A file system shows the files of a host directory ([FS.Backing]). Tests can use that
// directory without waiting. A file system is fast at first. The kernel caches nothing of
// it, unless [KeepNames] is set: each lookup, stat and read asks this process.
package slowfs

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// FS is one mounted file system. Its methods may be called at any time, by several
// goroutines.
type FS struct {
	Path    string // where it is mounted
	Backing string // the directory whose files it shows

	waiting atomic.Int64
	asked   atomic.Int64

	mu    sync.Mutex
	gate  chan struct{} // closed unless the file system hangs
	limit *time.Timer   // ends a hang that lasts too long
	pause time.Duration // for each read, write and sync; 0: none
	free  time.Time     // when the disk will have done what was asked so far
	ended chan struct{} // closed at the end of the test
}

// Mount mounts a file system until the end of the test, which also ends calls that still
// wait. Start later what opens files there, so that it ends first. Mount skips the test
// if this user cannot mount.
func Mount(t testing.TB, o ...Option) *FS {
	t.Helper()
	dir := t.TempDir()
	return MountAt(t, filepath.Join(dir, "mount"), o...)
}

// An Option configures a file system.
type Option func(*fs.Options)

// KeepNames makes the kernel remember names that were found for an hour, and nothing
// else. So they are found while the file system hangs.
func KeepNames(o *fs.Options) { o.EntryTimeout = new(time.Hour) }

// MountAt is Mount at path, which it makes if it is missing. What is below path is hidden
// meanwhile.
func MountAt(t testing.TB, path string, o ...Option) *FS {
	t.Helper()
	f := &FS{Path: path, Backing: t.TempDir(), gate: make(chan struct{}), ended: make(chan struct{})}
	close(f.gate)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	var all fs.Options
	for _, set := range o {
		set(&all)
	}
	server, err := f.serve(&all)
	if err != nil {
		t.Skipf("this machine lets this user mount no FUSE file system: %v", err)
	}
	t.Cleanup(func() {
		close(f.ended)
		for range 100 {
			if server.Unmount() == nil {
				server.Wait()
				return
			}
			time.Sleep(10 * time.Millisecond) // a released call may not have ended yet
		}
		_ = unix.Unmount(path, unix.MNT_DETACH) // detached, in case something is open there
	})
	return f
}

func (f *FS) serve(o *fs.Options) (*fuse.Server, error) {
	root, err := fs.NewLoopbackRoot(f.Backing)
	if err != nil {
		return nil, err
	}
	raw := &slow{RawFileSystem: fs.NewNodeFS(root, o), fs: f}
	server, err := fuse.NewServer(raw, f.Path, &fuse.MountOptions{
		FsName:        "slowfs",
		Name:          "slowfs",
		DirectMount:   os.Geteuid() == 0,
		AllowOther:    os.Geteuid() == 0,
		DisableSplice: true, // its pipes would remain after the unmount
	})
	if err != nil {
		return nil, err
	}
	shut()
	go server.Serve()
	return server, server.WaitMount()
}

// shut keeps this process's children from inheriting the device. Otherwise calls that
// wait here would not end when this process ends.
func shut() {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == "/dev/fuse" {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				unix.CloseOnExec(fd)
			}
		}
	}
}

// mostHang is the longest that a file system hangs. Processes that wait for it cannot be
// killed.
const mostHang = 2 * time.Minute

// Hang makes every call on the file system wait until Release or the end of the test. A
// process that waits there cannot be killed: call Release first.
func (f *FS) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
		f.gate = make(chan struct{})
		f.limit = time.AfterFunc(mostHang, f.Release)
	default:
	}
}

// Release lets the calls go on that Hang has stopped.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
	default:
		close(f.gate)
		f.limit.Stop()
	}
}

// Delay makes the file system do iops reads, writes and syncs per second, one after
// another, like a slow disk whose directories are cached. 0 removes the limit.
func (f *FS) Delay(iops int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pause, f.free = 0, time.Time{}
	if iops > 0 {
		f.pause = time.Second / time.Duration(iops)
	}
}

// Waiting returns how many calls wait here now. Each uses a thread of the process that
// made it.
func (f *FS) Waiting() int { return int(f.waiting.Load()) }

// Asked returns how many calls have come so far.
func (f *FS) Asked() int { return int(f.asked.Load()) }

// File makes a file of size bytes at name, a path below the root. It is sparse: it uses
// no disk space and reads as zeros.
func (f *FS) File(t testing.TB, name string, size int64) {
	t.Helper()
	path := filepath.Join(f.Backing, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

// wait waits for as long as one call takes. A heavy call uses the disk.
func (f *FS) wait(heavy bool) fuse.Status {
	f.asked.Add(1)
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	f.mu.Lock()
	gate, until := f.gate, time.Time{}
	if heavy && f.pause > 0 {
		if now := time.Now(); f.free.Before(now) {
			f.free = now
		}
		f.free = f.free.Add(f.pause)
		until = f.free
	}
	f.mu.Unlock()
	if !until.IsZero() {
		turn := time.NewTimer(time.Until(until))
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-f.ended:
			return fuse.EIO
		}
	}
	select {
	case <-gate:
		return fuse.OK
	case <-f.ended:
		return fuse.EIO
	}
}
